// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/lean_vector.hpp"
#include "plait/plan/schedule/program_operation.hpp"
#include "plait/plan/schedule/synchronization.hpp"

namespace plait::planning {

/// The names of the buffers that operations read and write.
enum class program_buffer : int {
  labels,
  scale,
  loss,
  norm_partials,
  numbers,         ///< numbers that ranks compare, or sums of measures
  parameters,      ///< parameters of a bucket
  gradients,       ///< gradients of a bucket
  pending,         ///< pending gradients of a bucket, in a plan with delayed updates
  tied_gradients,  ///< gradients of tied uses that are added to gradients of a bucket
  gathered,        ///< an end of the staging buffer for parameters or frozen parameters
  scattered,       ///< an end of the staging buffer for gradients
  passed,          ///< a piece of the arena in which passes leave values for later passes, see
                   ///< placed_range
  /// Gradient with respect to a unit's input: units of a backward use two buffers in turn.
  made_gradient,
  outputs,  ///< the whole output of a microbatch
  state,    ///< arenas of a trainer
  tensor    ///< staging buffer of an export
};

/// The number of enumerators of `program_buffer`.
inline constexpr int program_buffers = int(program_buffer::tensor) + 1;

/// The operations of a rank in one part of a job, in the order in which the rank passes them to its
/// streams. The first operation starts after all earlier work on stream::compute. After the last
/// operation the host waits for all streams before it starts another program.
struct step_program {
  lean_vector<program_operation> operations{};
  lean_vector<stream_operation> touched{};  ///< stream and buffers of each operation
};

}  // namespace plait::planning
