// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <plait/backend/cuda/cuda.hpp>

#include "train_gpt/registry.hpp"

namespace train_gpt::backends {

struct cuda {
  static constexpr char const* name = "cuda";
  static plait::cuda make(request const& wanted) {
    plait::cuda backend;
    backend.share_one_gpu = wanted.share_gpu;
    backend.options.graphs = wanted.replay;
    backend.options.tf32 = wanted.tf32;
#if defined(TRAIN_GPT_CUDNN)
    if (wanted.cudnn) backend.options.attention = plait::cudnn_attention();
#else
    if (wanted.cudnn)
      throw plait::input_error(
          "--attention cudnn: this train_gpt was built without plait::cudnn; see "
          "docs/devices.md");
#endif
    return backend;
  }
};

}  // namespace train_gpt::backends
