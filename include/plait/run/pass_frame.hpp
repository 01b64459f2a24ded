// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/plan/memory/pass_places.hpp"
#include "plait/plan/schedule/program_operation.hpp"
#include "plait/plan/sharding/arena_layout.hpp"
#include "plait/run/context.hpp"
#include "plait/run/forward_watch.hpp"
#include "plait/run/layer_views.hpp"
#include "plait/tensor/batch.hpp"

// Structs with the state of a step, of a pass and of a unit. A trainer passes this state down to
// each layer. A unit is a layer or a block that a pipeline stage runs as a whole.
namespace plait::execution {

using planning::unit_range;

/// Returns true if operations of this kind run units of a chunk on a microbatch.
constexpr bool is_pass(operation_kind what) {
  return what >= operation_kind::forward && what <= operation_kind::backward_parameters;
}
/// Returns true if operations of this kind compute gradients.
constexpr bool is_backward(operation_kind what) {
  return what >= operation_kind::backward && what <= operation_kind::backward_parameters;
}

/// The state of a step on one batch. stage_executor::frame_of makes it, and all passes of the step
/// read it.
template <class Setting>
struct step_frame {
  device_batch<typename Setting::memory> const& batch;
  layer_context context{};  ///< the context of all layers; a pass sets the facts of its microbatch
  loss_sum loss{};      ///< the address of the first term of the loss; the other terms follow it
  int loss_stride = 0;  ///< distance between the losses of two consecutive slices, in numbers
  int end_item = 0;     ///< number of the first item that does not run
  typename Setting::sum* gradients = nullptr;  ///< the arena to which backwards add gradients
  forward_watch* watch = nullptr;              ///< checks the output of each layer; null: no check
};

/// The part of a backward that a pass runs: the whole backward, only the gradients of inputs, or
/// only the gradients of parameters.
enum class backward_part : int { all, input, parameters };

/// The frame of a pass: the state of a forward or a backward of some units of a chunk, on one
/// microbatch. stage_executor makes it from an operation of the program and the frame of the step.
/// It contains everything that the units of the pass share: the addresses of the microbatch's input
/// and stash, the targets, the place of the loss, and the part of the backward. All functions that
/// a pass calls take the state of the pass from this frame and store none themselves, so passes of
/// different microbatches can be interleaved. For example, "backward of units 3 to 6, microbatch 1"
/// gets the stash that the forward of microbatch 1 has filled, even if forwards of the microbatches
/// 2 and 3 ran in between.
template <class Setting>
struct pass_frame {
  layer_context& context;  ///< each unit sets `copy`, and each layer sets `site`
  /// Buffers of the stage, with the targets and gradients of the pass.
  stage_buffers<Setting> buffers;
  loss_sum loss{};  ///< address of the first term of the microbatch's loss
  chunk_arena const* chunk = nullptr;
  unit_range units{};                   ///< units that the pass runs
  std::byte* input = nullptr;           ///< input of the chunk
  std::byte* stash = nullptr;           ///< activations of the microbatch
  std::byte* gradient_stash = nullptr;  ///< gradients kept between the halves of a backward
  int end_item = 0;
  bool recomputes = false;        ///< the pass recomputes activations that the forward has not kept
  bool begins_gradients = false;  ///< the pass overwrites the gradients of parameters and does not
                                  ///< add to them
  backward_part part = backward_part::all;
  std::byte* of_input = nullptr;  ///< gradient of the chunk's input; null: the pass chooses a place
  forward_watch* watch = nullptr;
};

/// A unit in a pass: the addresses of its buffers, in the rank's arena or in a batch.
template <class Setting>
struct unit_frame {
  pass_frame<Setting>* pass = nullptr;
  int unit = 0;                 ///< number of the unit in the model
  std::byte* input = nullptr;   ///< the output of the previous unit
  std::byte* output = nullptr;  ///< the output of this unit, at the beginning of the unit's stash
  std::byte* of_output = nullptr;       ///< gradient of the output, in a backward
  std::byte* of_input = nullptr;        ///< gradient of the input, in a backward
  std::byte* gradient_stash = nullptr;  ///< the unit's part of pass_frame::gradient_stash

  /// The number of bytes that the unit keeps in its stash. Activations whose offset in the unit's
  /// layout is `stash_end` or more are recomputed, at the address `working` + offset.
  std::size_t stash_end = ~std::size_t{0};
  std::byte* working = nullptr;
  unsigned char recompute_bit = 0;  ///< only nodes that have this bit in recompute_plan::node run;
                                    ///< 0: all nodes run
};

}  // namespace plait::execution
