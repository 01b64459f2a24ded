// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "plait/core/header_only.hpp"
#include "plait/data/sampler.hpp"

namespace plait {

/// The options of `plait::batches`: the number and order of the passes through the data set, and
/// the way in which samples are read.
struct batch_options {
  std::uint64_t seed = 0;
  sample_order how = sample_order::shuffled;
  last_batch last = last_batch::drop;
  /// The number of passes through the data set. If it is 0, the batches never end.
  std::uint64_t epochs = 1;
  /// The number of microbatches of a step, which run one after the other. 0 selects one microbatch
  /// for each pipeline stage. Under `shares` a rank runs this number times its share. A
  /// reproducible<Slices> job accepts only 0, which then selects one microbatch for each slice of
  /// the rank.
  int microbatches = 0;
  /// The number of steps whose samples are read ahead, while earlier steps are trained. If it is 0,
  /// the samples of a step are read when the step begins.
  int ahead = 0;
  /// The number of threads of each rank that read ahead.
  int readers = 1;
  /// Makes batches whose samples have no random changes, as `trainer.evaluate(data, ...)` does. A
  /// trainer refuses to train on such batches. If a data set is random, the trainer evaluates only
  /// such batches.
  bool for_evaluation = false;
};

namespace detail {

/// Checks that each number in the options is in its range.
///
/// Errors: input_error that names the option and its range.
[[gnu::cold]] void check(batch_options const& options);

}  // namespace detail

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/data/batch_options.ipp"
#endif
