// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "plait/core/namespaces.hpp"
#include "plait/placement/transition.hpp"

namespace plait {

/// The outputs of the model that a rank gets from a prediction.
enum class predicted : int {
  nothing,
  of_data_rank,  ///< those of its own samples
  of_all         ///< those of the global batch
};

/// The run-time numbers that bytes depend on.
///
/// Example (tests/reference/names_in_use_test.cpp workload):
///     constexpr plait::workload load{.rows = 16, .microbatches = 2};
///     static_assert(in_all_ways::plan().bytes_per_rank(load) < 64 * 1024);
struct workload {
  std::size_t rows = 1;         ///< of one microbatch on one data rank: positions times samples
  int microbatches = 1;         ///< per step
  int data_ranks = 1;           ///< counts only if the policy leaves it to the launch
  int optimizer_states = 2;     ///< arenas the size of the parameters: 2 for AdamW
  bool sample_weights = false;  ///< true when the data set has weights of samples
  bool averages = false;        ///< true when weights are averaged over steps
  bool gradient_norm = false;   ///< true when gradients are clipped, or steps not finite skipped
  bool stops = false;           ///< true when ranks agree to stop on signals
  predicted prediction = predicted::nothing;
  std::size_t measured_numbers = 0;  ///< of the measures of an evaluation, added up over ranks
  int source = 0;  ///< of the ranks of a data axis, the one whose state the others are given
  bool ranked_sums = false;  ///< true on processes that transfer blocks to add up, see ranked_sum
};

}  // namespace plait

namespace plait::ext {

/// Bytes that one rank needs.
struct memory_need {
  std::size_t parameters = 0;
  std::size_t gradients = 0;
  std::size_t optimizer = 0;
  std::size_t averages = 0;     ///< of weights over steps, if the workload has them
  std::size_t activations = 0;  ///< and boundary buffers and scratch
  std::size_t batches = 0;      ///< inputs and targets of one step
  std::size_t outputs = 0;      ///< of a prediction or for measures, if the workload has them
  std::size_t numbers = 0;      ///< of a step, what optimizers treat alike, what ranks compare
  std::size_t sums = 0;         ///< room of sums that processes make, if the workload has them
  /// What the device's libraries and kernels have taken for themselves, as attention on the
  /// processor: 0 in a plan, as it is known on the device alone.
  std::size_t workspace = 0;

  [[nodiscard]] constexpr std::size_t total() const {
    return parameters + gradients + optimizer + averages + activations + batches + outputs +
           numbers + sums + workspace;
  }
};

/// Bytes that one rank's share of the collectives of one group moves in a step.
struct traffic_need {
  std::int64_t forward = 0;
  std::int64_t backward = 0;
  std::int64_t step = 0;  ///< gradients and parameters, counts, loss, gradient norm

  [[nodiscard]] constexpr std::int64_t total() const { return forward + backward + step; }
};

/// Bytes that a rank moves when a value of `value_bytes`, as a whole in a group of `ranks`, goes
/// through a row of the table: what every figure of a plan is made of.
constexpr std::int64_t row_bytes(row_operation moves, std::int64_t value_bytes,
                                 std::int64_t ranks) {
  return bytes_sent(moves, value_bytes, ranks);
}

}  // namespace plait::ext

namespace plait {

inline namespace literals {
constexpr std::size_t operator""_KiB(unsigned long long count) { return count << 10; }
constexpr std::size_t operator""_MiB(unsigned long long count) { return count << 20; }
constexpr std::size_t operator""_GiB(unsigned long long count) { return count << 30; }
}  // namespace literals

}  // namespace plait
