// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/lean_vector.hpp"
#include "plait/plan/schedule/program_operation.hpp"
#include "plait/plan/schedule/synchronization.hpp"

namespace plait::planning {

/// Something that operations read and write, by name.
enum class program_buffer : int {
  labels,
  scale,
  loss,
  norm_partials,
  numbers,         ///< that ranks compare, or of measures
  parameters,      ///< of a bucket
  gradients,       ///< of a bucket
  tied_gradients,  ///< of the uses that are added to those of a bucket
  gathered,        ///< an end of the room for parameters, and of that for frozen ones
  scattered,       ///< an end of the room for gradients
  passed,          ///< a piece of the arena of what passes leave to later ones, see placed_passes
  made_gradient,   ///< of a unit's input: units of a backward use two places in turn
  outputs,         ///< of a microbatch, brought together
  state,           ///< arenas of a trainer
  tensor           ///< the room of an export
};

/// The number of enumerators of `program_buffer`.
inline constexpr int program_buffers = int(program_buffer::tensor) + 1;

/// All that a rank does in one part of a job, in the order in which it is handed to its streams:
/// what is handed to stream compute before comes before the first operation, and behind the last
/// one the host waits for all streams before it begins another program.
struct step_program {
  lean_vector<program_operation> operations{};
  lean_vector<stream_operation> touched{};  ///< of each
};

/// What a step does besides what its list says.
struct program_shape {
  bool counts = true;  ///< labels, and adds up the loss
  bool clips = false;  ///< makes the norm, to clip or to skip steps by it
  bool updates = false;
  bool checks_loss = false;  ///< before it updates
  bool masks_loss = false;   ///< of ranks that have the same loss, one counts
};

}  // namespace plait::planning
