// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/process/ranked_reduction.hpp"

namespace plait::detail {

PLAIT_DECL std::byte* reduction_room::take(std::size_t bytes) {
  if (bytes > size_) {
    data_ = std::make_unique<std::byte[]>(bytes);
    size_ = bytes;
  }
  return data_.get();
}

}  // namespace plait::detail
