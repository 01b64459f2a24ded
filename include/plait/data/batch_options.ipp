// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/data/batch_options.hpp"

#include "plait/core/error.hpp"
#include "plait/core/number_range.hpp"

namespace plait::detail {

PLAIT_DECL void check(batch_options const& options) {
  require_range("batch_options::microbatches", options.microbatches, number_ranges::at_least_0);
  require_range("batch_options::ahead", options.ahead, {0, 1024, "from 0 to 1024"});
  require_range("batch_options::readers", options.readers, {1, 1024, "from 1 to 1024"});
  if (options.ahead == 0 && options.readers > 1)
    throw input_error({"batch_options: .readers is ", options.readers,
                       " but .ahead is 0, so the readers would have nothing to read; set .ahead to "
                       "a number such as 2, or leave .readers out"});
}

}  // namespace plait::detail
