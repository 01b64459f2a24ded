// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/data/batch_size.hpp"

#include <limits>

#include "plait/core/error.hpp"

namespace plait::detail {

PLAIT_DECL std::size_t samples_per_share(std::size_t samples, int sum, int microbatches,
                                         std::string const& shares) {
  std::size_t const all = std::size_t(sum) * std::size_t(microbatches);
  if (samples % all != 0 || all > std::size_t{std::numeric_limits<int>::max()})
    throw input_error({"global_batch: ", samples, " samples are not a multiple of ", all,
                       ", the sum of ", shares, " (", sum, ") times .microbatches (", microbatches,
                       "); choose a multiple of ", all, ", or another .microbatches"});
  return samples / all;
}

}  // namespace plait::detail
