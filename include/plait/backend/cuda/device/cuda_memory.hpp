// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/tensor/view.hpp"

namespace plait {

/// The memory of a CUDA device; only its kernels and copies may use a pointer to it.
struct cuda_memory {
  using concept_tag = memory_tag;
};

}  // namespace plait
