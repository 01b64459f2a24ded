// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "plait/core/header_only.hpp"
#include "plait/data/sampler.hpp"

namespace plait {

/// The options of batches: the samples that they have, and the way in which they are read.
struct batch_options {
  std::uint64_t seed = 0;
  sample_order how = sample_order::shuffled;
  last_batch last = last_batch::drop;
  /// Passes through the data set; 0: no end.
  std::uint64_t epochs = 1;
  /// Pieces of a step that are run one after the other. 0 takes one for each pipeline stage, and
  /// for a reproducible<Slices> job one for each slice of the rank, the only number that such a job
  /// takes.
  int microbatches = 0;
  /// Steps whose samples are read ahead while earlier ones are trained on; 0 reads the samples of a
  /// step when it is asked for.
  int ahead = 0;
  /// Threads of each rank that read ahead.
  int readers = 1;
  /// Makes samples without randomness, as `trainer.evaluate(data, ...)` does. A trainer does not
  /// train on such batches, and evaluates only such batches of a random data set.
  bool for_evaluation = false;
};

namespace detail {

/// Errors: input_error for a number that is not in its range.
[[gnu::cold]] void check(batch_options const& options);

}  // namespace detail

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/data/batch_options.ipp"
#endif
