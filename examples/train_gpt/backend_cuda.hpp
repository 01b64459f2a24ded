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
    return backend;
  }
};

}  // namespace train_gpt::backends
