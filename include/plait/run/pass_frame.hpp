// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/plan/schedule/program_operation.hpp"
#include "plait/plan/sharding/arena_layout.hpp"
#include "plait/run/context.hpp"
#include "plait/run/forward_watch.hpp"
#include "plait/run/layer_views.hpp"
#include "plait/tensor/batch.hpp"

// Frames that a trainer passes down to a layer: of a step, of a pass and of a unit.
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

/// A step on one batch. stage_executor::frame_of makes it, and all passes of the step read it.
template <class Setting>
struct step_frame {
  device_batch<typename Setting::memory> const& batch;
  layer_context context{};  ///< the context of all layers; a pass sets its microbatch
  loss_sum loss{};          ///< the place of the first term; the places of other terms follow it
  int loss_stride = 0;      ///< distance between the losses of two consecutive slices
  int end_item = 0;         ///< items from this one on are not run
  typename Setting::sum* gradients = nullptr;  ///< the arena to which backwards add gradients
  forward_watch* watch = nullptr;  ///< looks at the output of each layer; null: there is none
};

/// The part of a backward that a pass runs: all, only the gradients of inputs, or only the
/// gradients of parameters.
enum class backward_part : int { all, input, parameters };

/// The frame of a pass: a forward or a backward of some units of a chunk, on one microbatch.
/// stage_executor makes it from an operation of the program and the frame of the step. It has all
/// that the units of the pass share: the addresses of the microbatch's input and stash, the
/// targets, the place of the loss, and the part of the backward. All functions down to a layer's
/// body get the state of the pass by this frame, so passes of different microbatches can be
/// interleaved. For example, "backward of units 3 to 6, microbatch 1" gets the stash that the
/// forward of microbatch 1 has filled, also if forwards of the microbatches 2 and 3 ran in between.
template <class Setting>
struct pass_frame {
  layer_context& context;  ///< each unit sets its copy, and each layer its site
  stage_buffers<Setting>
      buffers;      ///< buffers of the stage, with the targets and gradients of the pass
  loss_sum loss{};  ///< place of the first term, for the microbatch
  chunk_arena const* chunk = nullptr;
  unit_range units{};                   ///< units that the pass runs
  std::byte* input = nullptr;           ///< input of the chunk
  std::byte* stash = nullptr;           ///< activations of the microbatch
  std::byte* gradient_stash = nullptr;  ///< gradients kept between the halves of a backward
  int end_item = 0;
  bool runs_again = false;  ///< recomputes values that backwards read and forwards have not kept
  bool begins_gradients = false;  ///< overwrites gradients of parameters instead of adding to them
  backward_part part = backward_part::all;
  std::byte* of_input = nullptr;  ///< place for the gradient of the chunk's input; null: any place
  forward_watch* watch = nullptr;
};

/// A unit in a pass: the addresses of its buffers, in the rank's arena or in a batch.
template <class Setting>
struct unit_frame {
  pass_frame<Setting>* pass = nullptr;
  int unit = 0;                         ///< its number in the model
  std::byte* input = nullptr;           ///< the output of the unit before
  std::byte* output = nullptr;          ///< the output of this unit, first in its activation stash
  std::byte* of_output = nullptr;       ///< gradient of the output, in a backward
  std::byte* of_input = nullptr;        ///< gradient of the input, in a backward
  std::byte* gradient_stash = nullptr;  ///< the unit's part of pass_frame::gradient_stash
  /// The bytes that the unit keeps in its stash. Values whose offset in the layout is `stash_end`
  /// or more are recomputed into the working record, at the address `working` + offset.
  std::size_t stash_end = ~std::size_t{0};
  std::byte* working = nullptr;
  unsigned char steps_again = 0;  ///< one bit: only steps with this bit run; 0: all steps run
};

}  // namespace plait::execution
