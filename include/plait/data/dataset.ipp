// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/data/dataset.hpp"

namespace plait::detail {

PLAIT_DECL void check_sample(char const* data, std::size_t sample, std::size_t size,
                             std::size_t given, std::size_t needed) {
  if (sample >= size || given != needed)
    throw size_mismatch({data, ": sample ", sample, " of ", size, " into a span of ", given,
                         ", which must be ", needed});
}

}  // namespace plait::detail
