// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "plait/core/header_only.hpp"
#include "plait/mesh/axis.hpp"
#include "plait/mesh/placements.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/placement/transition.hpp"

namespace plait::planning {

/// A part of a job. Each part has its own list of transfers.
enum class job_part : int {
  set_up,             ///< runs once at the start of the job, and once for each source of batches
  training,           ///< one training step, with clipping if the workload has it
  evaluation,         ///< computes the loss of one batch
  prediction,         ///< computes the outputs for one batch
  export_parameters,  ///< sends parameters to the root rank
  export_gradients,   ///< sends gradients to the root rank
  state_transfer,     ///< sends the state of an elastic job to ranks that join it
  common_update       ///< updates the common parameters of replicas, see local_steps<H>
};

/// Returns true if a part of a job has passes.
[[nodiscard]] constexpr bool has_passes(job_part part) {
  switch (part) {
    case job_part::training:
    case job_part::evaluation:
    case job_part::prediction: return true;
    case job_part::set_up:
    case job_part::export_parameters:
    case job_part::export_gradients:
    case job_part::state_transfer:
    case job_part::common_update: break;
  }
  return false;
}

/// The number of enumerators of `job_part`.
inline constexpr int job_parts = int(job_part::common_update) + 1;

/// The label of a transfer: its purpose within a part of a job. Programs find transfers in a list
/// by this label. order_of_parts.hpp defines the order of the transfers.
enum class transfer_place : int {
  consistency,  ///< settings of each rank, which must be equal on all ranks
  labels,       ///< count of the labels, before the passes
  /// Parameters, from the placement in which optimizers own them to the placement in which they are
  /// kept.
  gather_parameters,
  /// Parameters of a bucket, from the placement in which they are kept to the placement that layers
  /// see.
  parameters,
  forward,               ///< values within a copy of an item, for each microbatch
  recompute,             ///< values within a copy of an item that is recomputed
  backward,              ///< gradients within a copy of an item, for each microbatch
  activation_edge,       ///< values between two stages, for each microbatch
  gradient_edge,         ///< gradients between two stages, for each microbatch
  microbatch_gradients,  ///< adds a microbatch's gradients of a bucket to the sums of the step
  slices,                ///< sums of gradients over slices, after the passes, in a plan with slices
  ties,                  ///< gradients of tied uses, to be added to their owners' gradients
  gradients,             ///< gradients of buckets, for the optimizer
  loss,                  ///< sums of the loss and of the ranks' votes, see step_hook
  norm_partials,         ///< sums of squares of the gradients, from which their norm is computed
  measures,              ///< sums of an evaluation, once for all its batches
  output,                ///< output of a microbatch, within the last stage
  rank_outputs,          ///< outputs of one data rank, to all stages
  outputs,               ///< outputs of all data ranks
  blocks,                ///< blocks of a bucket that is exported
  parameter,             ///< a tensor that is exported
  state,  ///< arenas of a trainer: layers' copies of parameters, parameters, optimizer, averages
  replica_numbers,  ///< labels, losses and votes of each replica, before a common update
  differences       ///< weighted differences of the common parameters and each replica's parameters
};

/// The number of enumerators of `transfer_place`.
inline constexpr int transfer_places = int(transfer_place::differences) + 1;

/// Returns a word such as "gradients".
constexpr char const* to_string(transfer_place place) {
  constexpr char const* words[]{
      "consistency", "labels",   "gather_parameters", "parameters",    "forward",
      "recompute",   "backward", "activation_edge",   "gradient_edge", "microbatch_gradients",
      "slices",      "ties",     "gradients",         "loss",          "norm_partials",
      "measures",    "output",   "rank_outputs",      "outputs",       "blocks",
      "parameter",   "state",    "replica_numbers",   "differences"};
  static_assert(std::size(words) == transfer_places);
  return words[static_cast<int>(place)];
}

/// The type of a transfer's elements, named after the use of the values in the job.
/// `word`: the wire_word of rounded gradients.
enum class transfer_element : int { compute, slot, gradient, parameter, real, bits, word };

/// One communication of a job: a value that is brought from one set of placements to another. The
/// operation and the axes follow from the table of transitions. Example: a gradient from `partial`
/// to `invariant` on the data axis is an all_reduce over the data axis.
struct transfer {
  transfer_place place = transfer_place::consistency;
  placements from{}, to{};
  transfer_element element = transfer_element::real;
  std::size_t count = 1;   ///< number of elements of the whole value in one group
  std::size_t offset = 0;  ///< offset of the first element, if one arena has several values
  std::int64_t times = 1;  ///< number of times that the transfer is carried out in a step, over
                           ///< copies, microbatches and buckets
  int item = -1;           ///< index of the item whose nodes need the transfer
  int entry = -1;          ///< index of the parameter, for a tied use or an export
  int unit = -1;           ///< first unit of the later chunk, for a message between chunks
  int bucket = -1;         ///< first bucket that the transfer moves
  std::size_t stride = 0;  ///< distance between two buckets, in elements
  int buckets = 1;         ///< number of buckets that the transfer moves
  std::size_t range = 0;   ///< gradients of the arena that the transfer brings to their new
                           ///< placement, if `count` counts something else; 0: `count` elements
  std::size_t piece = 0;   ///< gradients of each rank's block that one call moves; 0: all
  axis_set held{};         ///< axes along which the arena has only this rank's blocks

  [[nodiscard]] constexpr placements_transition row() const { return transition_between(from, to); }
  /// Returns the number of elements of the arena that the transfer covers.
  [[nodiscard]] constexpr std::size_t elements() const { return range > 0 ? range : count; }
  /// Returns the number of calls of a communicator by which a group of `ranks` ranks carries the
  /// transfer out once.
  [[nodiscard]] constexpr std::int64_t calls(int ranks) const {
    if (piece == 0) return 1;
    return static_cast<std::int64_t>((elements() / std::size_t(ranks) + piece - 1) / piece);
  }
  /// Returns true if ranks of `stage` send. A message is in the lists of both its stages, and the
  /// ranks of one of them only receive.
  [[nodiscard]] constexpr bool is_sent_by(int stage) const {
    return row().moves != collective::send || from.stage() == stage;
  }
  /// Returns true if the transfer moves bucket `number`.
  [[nodiscard]] constexpr bool moves_bucket(int number) const {
    return bucket >= 0 && bucket <= number && number < bucket + buckets;
  }
  friend constexpr bool operator==(transfer const&, transfer const&) = default;
};

/// Returns the stream on which a rank of a stage carries out a transfer. Messages between
/// neighbouring stages have one stream for each direction and neighbour; other transfers use the
/// streams of their groups.
///
/// `stages`: number of stages of the pipeline, for messages.
[[nodiscard]] constexpr stream stream_of_row(transfer const& made, int stage, int stages) {
  if (made.unit < 0) return stream_of(made.row().over);
  bool const sends = made.is_sent_by(stage);
  return channel_of(stage, (sends ? made.to : made.from).stage(), stages, sends);
}

/// Ends a job whose list contains a transfer that the code for this part of the job does not know.
///
/// Errors: error, always: a fault of plait that names the transfer and the part.
[[noreturn]] [[gnu::cold]] void refuse_row(transfer_place place, char const* part);

/// Returns text about a transfer for which the table of transitions has no single operation: its
/// transition on each axis, and the operations that are allowed.
[[gnu::cold]] std::string refused_rows(transfer const& made);

}  // namespace plait::planning

#if PLAIT_HEADER_ONLY
#include "plait/plan/schedule/transfer.ipp"
#endif
