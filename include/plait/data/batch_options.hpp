// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "plait/core/header_only.hpp"
#include "plait/data/sampler.hpp"

namespace plait {

/// The options of batches: how often the data set is read, and in which way.
struct batch_options {
  std::uint64_t seed = 0;
  sample_order how = sample_order::shuffled;
  last_batch last = last_batch::drop;
  /// The number of passes through the data set; with 0, the batches never end.
  std::uint64_t epochs = 1;
  /// The number of microbatches of a step, which run one after the other. 0 selects one microbatch
  /// for each pipeline stage; in a reproducible<Slices> job, 0 selects one for each slice of the
  /// rank, which is the only number that such a job accepts.
  int microbatches = 0;
  /// The number of steps whose samples are read ahead, while earlier steps are trained. With 0, the
  /// samples of a step are read when the step begins.
  int ahead = 0;
  /// The number of threads of each rank that read ahead.
  int readers = 1;
  /// Makes batches whose samples have no random changes, as `trainer.evaluate(data, ...)` does. A
  /// trainer refuses to train on such batches; of a random data set, it evaluates only such
  /// batches.
  bool for_evaluation = false;
};

namespace detail {

/// Checks the numbers.
///
/// Errors: input_error for a number that is not in its range.
[[gnu::cold]] void check(batch_options const& options);

}  // namespace detail

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/data/batch_options.ipp"
#endif
