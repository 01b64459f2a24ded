// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "plait/core/error.hpp"
#include "plait/core/number_range.hpp"
#include "plait/data/sampler.hpp"

namespace plait {

/// The options of batches: which samples they have, and how they are made.
struct batch_options {
  std::uint64_t seed = 0;
  sample_order how = sample_order::shuffled;
  last_batch last = last_batch::drop;
  /// Passes through the data set; 0 goes on for ever.
  std::uint64_t epochs = 1;
  /// Pieces of a step that are run one after the other; 0 takes one for each pipeline stage, and
  /// for a job that is reproducible<Slices> one for each slice of the rank, which is all it takes.
  int microbatches = 0;
  /// Steps whose samples are read ahead, while others are trained on; 0 reads those of a step when
  /// it is asked for.
  int ahead = 0;
  /// Threads of each rank that read ahead.
  int readers = 1;
  /// Nothing is random in samples, as in those of `trainer.evaluate(data, ...)`; a trainer does not
  /// train on such batches, and evaluates no others of a data set that is random.
  bool for_evaluation = false;
};

namespace detail {

/// Errors: input_error for a number that is not in its range.
[[gnu::cold]] inline void check(batch_options const& options) {
  require_range("batch_options::microbatches", options.microbatches, number_ranges::at_least_0);
  require_range("batch_options::ahead", options.ahead, {0, 1024, "from 0 to 1024"});
  require_range("batch_options::readers", options.readers, {1, 1024, "from 1 to 1024"});
  if (options.ahead == 0 && options.readers > 1)
    throw input_error({"batch_options: .readers is ", options.readers,
                       " and .ahead is 0, so that they would have nothing to do; write .ahead = 2, "
                       "for example"});
}

}  // namespace detail

}  // namespace plait
