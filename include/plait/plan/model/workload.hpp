// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "plait/core/error.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/placement/batch_slicing.hpp"
#include "plait/placement/transition.hpp"

namespace plait {

/// The outputs of the model that a prediction returns on a rank.
enum class predicted : int {
  nothing,
  of_data_rank,  ///< the outputs of the data rank's own samples
  of_all         ///< the outputs of the global batch
};

/// The run-time numbers on which the memory and the traffic of a plan depend.
///
/// If data ranks have different `shares`, they run different numbers of microbatches. A workload
/// with a `block` belongs to one rank: `microbatches` is the number that this rank runs, and plan
/// functions count for this rank. plan::of_block makes such a workload. Without a `block`,
/// `microbatches` is the number that the program asks for, and plan functions count for the rank
/// with the greatest share.
///
/// Example (tests/reference/names_in_use_test.cpp workload):
///     constexpr plait::workload load{.rows = 16, .microbatches = 2};
///     static_assert(in_all_ways::plan().bytes_per_rank(load) < 64 * 1024);
struct workload {
  std::size_t rows = 1;  ///< rows of one microbatch on one data rank: positions times samples
  int microbatches = 1;  ///< microbatches per step, see above
  /// The number of the block of samples that the rank has, see block_of; -1: not set. It has a
  /// meaning only under `shares`.
  int block = -1;
  int data_ranks = 1;        ///< number of data ranks if the policy leaves it to the launch
  int optimizer_states = 2;  ///< number of the optimizer's states for each parameter: 2 for AdamW
  /// Bytes of an element of these states, for an optimizer that declares a type for them: 2 for
  /// ext::adamw_bfloat16. If it is 0, states have the type of the parameters.
  std::size_t state_bytes = 0;
  /// Bytes of the scratch memory of an optimizer that updates whole matrices, see ext::muon.
  std::size_t optimizer_scratch = 0;
  bool sample_weights = false;  ///< true if samples have weights
  bool documents = false;       ///< true if samples consist of several documents
  bool averages = false;        ///< true if weights are averaged over steps
  /// True if gradients are clipped, or steps that are not finite are skipped.
  bool gradient_norm = false;
  bool stops = false;  ///< true if ranks agree to stop on signals
  predicted prediction = predicted::nothing;
  /// The count of all numbers that the measures of an evaluation add up over the ranks.
  std::size_t measured_numbers = 0;
  int source = 0;  ///< data coordinate of the rank that sends its state to ranks that join the job
  /// True if ranks are processes that add up blocks in staging buffers, see ranked_sum.
  bool ranked_sums = false;

  /// Returns the bytes of all states of one parameter's element. `parameter_bytes`: the bytes of
  /// the element itself.
  [[nodiscard]] constexpr std::size_t bytes_of_states(std::size_t parameter_bytes) const {
    return std::size_t(optimizer_states) * (state_bytes > 0 ? state_bytes : parameter_bytes);
  }
};

}  // namespace plait

namespace plait::planning {

/// Returns a workload with the number of microbatches that the program asks for, in place of the
/// number of one block of samples.
///
/// Errors: input_error if `load` says a block that has no share, or whose share does not divide the
///         number of microbatches.
constexpr workload without_block(static_view<int> const& shares, workload load) {
  if (load.block < 0) return load;
  if (load.block >= shares.size() || load.microbatches % shares[load.block] != 0)
    throw input_error({"plan: a workload has ", load.microbatches, " microbatches on block ",
                       load.block, ", which is not a multiple of the block's share in ",
                       text_of_shares(shares), "; write plan::of_block(block, load)"});
  load.microbatches /= shares[load.block];
  load.block = -1;
  return load;
}

}  // namespace plait::planning

namespace plait::ext {

/// Returns workload::state_bytes of an optimizer: the size of its `state_element`, or 0 if the
/// optimizer has none.
template <class Optimizer>
constexpr std::size_t state_bytes_of() {
  if constexpr (requires { typename Optimizer::state_element; })
    return sizeof(typename Optimizer::state_element);
  else return 0;
}

/// The bytes that one rank needs.
struct memory_need {
  std::size_t parameters = 0;
  std::size_t gradients = 0;
  std::size_t pending = 0;  ///< gradients of the step before; 0 unless updates are delayed
  /// States of the optimizer; with local_steps, also the common parameters and the outer momentum.
  std::size_t optimizer = 0;
  std::size_t averages = 0;     ///< averages of weights over steps; 0 without them
  std::size_t activations = 0;  ///< activations, with boundary buffers and scratch
  std::size_t batches = 0;      ///< inputs and targets of one step
  std::size_t outputs = 0;      ///< outputs of a prediction, or outputs that measures read
  /// Tables of numbers: of a step, of an optimizer's parameters, and of comparisons between ranks.
  std::size_t numbers = 0;
  /// Staging buffers in which processes add up blocks; 0 unless workload::ranked_sums is true.
  std::size_t sums = 0;
  /// Memory that the device's libraries and kernels allocate for themselves, for example for
  /// attention on the CPU. It is 0 in a plan, because only the device knows it.
  std::size_t workspace = 0;

  [[nodiscard]] constexpr std::size_t total() const {
    return parameters + gradients + pending + optimizer + averages + activations + batches +
           outputs + numbers + sums + workspace;
  }
};

/// Bytes that one rank sends in a step in collectives of one group.
struct traffic_need {
  std::int64_t forward = 0;
  std::int64_t backward = 0;
  std::int64_t step = 0;  ///< gradients and parameters, counts of labels, loss, gradient norm

  [[nodiscard]] constexpr std::int64_t total() const { return forward + backward + step; }
};

/// Returns the bytes that a rank sends when operation `moves` of the table of transitions is
/// carried out on a value. `value_bytes` is the size of the whole value in a group of `ranks`
/// ranks. All bytes of traffic that a plan reports are sums of results of this function.
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
