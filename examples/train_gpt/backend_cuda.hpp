// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <plait/backend/cuda/cuda.hpp>

#include "train_gpt/registry.hpp"

namespace train_gpt::backends {

struct cuda {
  static constexpr char const* name = "cuda";
  static std::string device() { return {}; }  // --explain also works without a GPU
  static plait::cuda make(request const& wanted) {
    plait::cuda backend;
    backend.share_one_gpu = wanted.share_gpu;
    backend.options.graphs = wanted.replay;
    backend.options.tf32 = wanted.tf32;
    backend.options.deterministic_attention = wanted.deterministic_attention;
    backend.options.fused_gelu = wanted.fused_gelu;
    backend.options.fused_residual = wanted.fused_residual;
    backend.options.one_pass_cross_entropy = wanted.one_pass_cross_entropy;
    backend.options.loss_with_gradient = wanted.loss_with_gradient;
    backend.options.one_pass_layer_norm = wanted.one_pass_layer_norm;
    backend.options.fused_bias_gradient = wanted.fused_bias_gradient;
    backend.options.time_products = wanted.time_products;
    if (wanted.attention == "own") backend.options.attention = nullptr;
#if defined(TRAIN_GPT_CUDNN)
    if (wanted.attention == "cudnn") backend.options.attention = plait::cudnn_attention();
#else
    if (wanted.attention == "cudnn")
      throw plait::input_error(
          "--attention cudnn: this train_gpt was built without plait::cudnn; see "
          "docs/devices.md");
#endif
    return backend;
  }
};

}  // namespace train_gpt::backends
