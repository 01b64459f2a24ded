// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/namespaces.hpp"
#include "plait/tensor/view.hpp"

namespace plait::ext {

/// The memory of a CUDA device; only its kernels and copies may use a pointer to it.
struct cuda_memory {
  using concept_tag = memory_tag;
};

}  // namespace plait::ext
