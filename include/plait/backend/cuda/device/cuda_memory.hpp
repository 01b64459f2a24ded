// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/namespaces.hpp"
#include "plait/tensor/view.hpp"

namespace plait::ext {

/// Marks memory of a CUDA device; only kernels and copies of the device may use a pointer to it.
struct cuda_memory {
  using concept_tag = memory_tag;
};

}  // namespace plait::ext
