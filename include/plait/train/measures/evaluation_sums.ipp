// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/train/measures/evaluation_sums.hpp"

#include "plait/core/error.hpp"

namespace plait::execution {

PLAIT_DECL void refuse_write(std::string const& measure, std::size_t numbers) {
  throw input_error({"evaluate: the measure ", measure, " has written past the end of its ",
                     numbers,
                     " sums; set `numbers` to the number of sums that its add() writes to"});
}

}  // namespace plait::execution
