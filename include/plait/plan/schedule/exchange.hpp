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

/// What a job does; each part has a list of exchanges of its own.
enum class job_part : int {
  set_up,             ///< once, and for each source of batches
  training,           ///< one step, with clipping if the workload says so
  evaluation,         ///< the loss of one batch
  prediction,         ///< the output for one batch
  export_parameters,  ///< to the root rank
  export_gradients,
  state_transfer  ///< of an elastic job, when ranks have come
};

/// Whether a part of a job has passes.
[[nodiscard]] constexpr bool has_passes(job_part part) {
  switch (part) {
    case job_part::training:
    case job_part::evaluation:
    case job_part::prediction: return true;
    case job_part::set_up:
    case job_part::export_parameters:
    case job_part::export_gradients:
    case job_part::state_transfer: break;
  }
  return false;
}

/// The number of enumerators of `job_part`.
inline constexpr int job_parts = int(job_part::state_transfer) + 1;

/// Where in its part of a job an exchange takes place.
enum class exchange_place : int {
  agreement,          ///< what must be the same on all ranks, of each rank
  labels,             ///< before the passes: their count
  gather_parameters,  ///< before the passes: from what optimizers own to what is kept
  parameters,       ///< of a bucket before units that use it: from what is kept to what layers see
  forward,          ///< within an item, in each of its copies, for each microbatch
  forward_again,    ///< the same, of what is made again before a backward
  backward,         ///< within an item, in each of its copies, for each microbatch
  activation_edge,  ///< between two stages, for each microbatch
  gradient_edge,    ///< the same, against the order of the stages
  microbatch_gradients,  ///< of a bucket, to the sums of the step
  slices,                ///< behind the passes: of gradients that are summed slice by slice
  ties,                  ///< gradients of tied uses, to be added to their owner's
  gradients,
  loss,           ///< and whether to stop
  norm_partials,  ///< of the gradients, for their norm
  measures,       ///< of an evaluation, once for all its batches
  output,         ///< of a microbatch, within the last stage
  rank_outputs,   ///< of a prediction, of one data rank: to all stages
  outputs,        ///< of all data ranks
  blocks,         ///< in an export: of a bucket, where ranks have blocks
  parameter,      ///< of an export
  state           ///< of a trainer, whole arenas: what layers see, parameters, optimizer, averages
};

/// The number of enumerators of `exchange_place`.
inline constexpr int exchange_places = int(exchange_place::state) + 1;

/// For example "gradients".
constexpr char const* to_string(exchange_place place) {
  constexpr char const* words[]{
      "agreement",     "labels",   "gather_parameters", "parameters",    "forward",
      "forward_again", "backward", "activation_edge",   "gradient_edge", "microbatch_gradients",
      "slices",        "ties",     "gradients",         "loss",          "norm_partials",
      "measures",      "output",   "rank_outputs",      "outputs",       "blocks",
      "parameter",     "state"};
  static_assert(std::size(words) == exchange_places);
  return words[static_cast<int>(place)];
}

/// Which of a job's types the elements of an exchange have.
enum class exchange_element : int { compute, slot, gradient, parameter, real, bits };

/// One communication of a job: the value that goes from one set of placements to another. The
/// operation and the axes follow from the table.
struct exchange {
  exchange_place place = exchange_place::agreement;
  placements from{}, to{};
  exchange_element element = exchange_element::real;
  std::size_t count = 1;   ///< elements of the value that one group has, as a whole
  std::size_t offset = 0;  ///< of its first element, where one arena has several
  std::int64_t times = 1;  ///< for all copies, microbatches and buckets
  int item = -1;           ///< of the program, where the place is within one
  int entry = -1;          ///< of the parameters, in a tie and in an export
  int unit = -1;           ///< of a message between chunks, the first of the later one
  int bucket = -1;         ///< of the layout, the first of those that one row moves,
  std::size_t stride = 0;  ///< from one of them to the next, in elements,
  int buckets = 1;         ///< and how many they are
  axis_set held{};         ///< along these the arena has this rank's blocks alone

  [[nodiscard]] constexpr placements_transition row() const { return transition_between(from, to); }
  /// False for the rank that only receives: a message stands in the lists of both its ends.
  [[nodiscard]] constexpr bool is_sent_by(int stage) const {
    return row().moves != collective::send || from.stage() == stage;
  }
  /// Whether a bucket is among those that it moves.
  [[nodiscard]] constexpr bool moves_bucket(int number) const {
    return bucket >= 0 && bucket <= number && number < bucket + buckets;
  }
  friend constexpr bool operator==(exchange const&, exchange const&) = default;
};

/// The stream on which a rank of a stage carries out an exchange: messages between neighbours of a
/// pipeline have channels, other calls the streams of their groups. `stages`: of the pipeline, for
/// messages.
[[nodiscard]] constexpr stream stream_of_row(exchange const& made, int stage, int stages) {
  if (made.unit < 0) return stream_of(made.row().over);
  bool const sends = made.is_sent_by(stage);
  return channel_of(stage, (sends ? made.to : made.from).stage(), stages, sends);
}

/// Ends a job whose list has a row that the code of its part does not carry out.
///
/// Errors: error, always: a fault of plait that names both.
[[noreturn]] [[gnu::cold]] void refuse_row(exchange_place place, char const* part);

/// The rows of an exchange that the table does not have as one operation, and what it may be.
[[gnu::cold]] std::string refused_rows(exchange const& made);

}  // namespace plait::planning

#if PLAIT_HEADER_ONLY
#include "plait/plan/schedule/exchange.ipp"
#endif
