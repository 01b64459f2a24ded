// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/data/in_memory.hpp"

#include "plait/core/concat.hpp"

namespace plait::detail {

PLAIT_DECL std::string in_sequences(std::size_t length, bool targets_per_sample) {
  if (length == 1) return {};
  return ext::concat({" in sequences of ", length, " positions, with targets for each ",
                      targets_per_sample ? "sample" : "position"});
}

}  // namespace plait::detail
