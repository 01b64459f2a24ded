// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/plan/schedule/program_operation.hpp"

namespace plait::execution {

using planning::unit_range;

/// Where a unit works in a pass: its buffers, in the rank's arena or in a batch.
struct pass_frame {
  int unit = 0;                    ///< of the model
  std::byte* input = nullptr;      ///< what the unit before has made
  std::byte* output = nullptr;     ///< first in the activation stash of the unit
  std::byte* of_output = nullptr;  ///< gradients, in a backward
  std::byte* of_input = nullptr;
  std::byte* gradient_stash = nullptr;  ///< what the first half of a backward keeps for the second
  std::size_t stash_end =
      ~std::size_t{0};            ///< what is made again lies from here on in the working record,
  std::byte* working = nullptr;   ///< which is addressed as if it were behind the stash
  unsigned char steps_again = 0;  ///< a bit: only steps that have it run; 0: all
};

/// Where a pass runs: on which units of a chunk, and where the microbatch has its stashes in the
/// arena, in bytes.
struct pass_place {
  int chunk = 0;  ///< of the stage
  std::size_t stash = 0, gradient_stash = 0;
  unit_range units{};  ///< all of the chunk if it is empty
};

/// What a backward computes: all, or the gradients of inputs and then those of parameters.
enum class backward_part : int { all, input, parameters };

}  // namespace plait::execution
