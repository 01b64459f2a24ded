// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/plan/schedule/program_operation.hpp"
#include "plait/plan/sharding/arena_layout.hpp"
#include "plait/run/context.hpp"
#include "plait/run/forward_watch.hpp"
#include "plait/run/layer_views.hpp"
#include "plait/tensor/batch.hpp"

// Frames that are handed down from a trainer to a layer: of a step, of a pass and of a unit.
namespace plait::execution {

using planning::unit_range;

/// Returns true if operations of this kind run units of a chunk on a microbatch.
constexpr bool is_pass(operation_kind what) {
  return what >= operation_kind::forward && what <= operation_kind::backward_parameters;
}
/// Returns true if they compute gradients.
constexpr bool is_backward(operation_kind what) {
  return what >= operation_kind::backward && what <= operation_kind::backward_parameters;
}

/// A step on one batch, as its passes see it; stage_executor::frame_of makes it.
template <class Setting>
struct step_frame {
  device_batch<typename Setting::memory> const& batch;
  layer_context context{};  ///< the passes fill in what differs between them
  loss_sum loss{};          ///< `data` and `scale` of the first term, which the others follow
  int loss_stride = 0;      ///< from the loss of a slice to that of the next one
  int end_item = 0;         ///< items from this one on are left out
  typename Setting::sum* gradients = nullptr;  ///< where backwards add up
  forward_watch* watch = nullptr;              ///< sees what each layer makes; null: nobody looks
};

/// The part of a backward: all, or the gradients of inputs and then those of parameters.
enum class backward_part : int { all, input, parameters };

/// A pass through units of a chunk, on one microbatch.
template <class Setting>
struct pass_frame {
  layer_context& context;          ///< layers fill in what differs between them
  stage_buffers<Setting> buffers;  ///< with the targets and the gradients of the pass
  loss_sum loss{};                 ///< as in step_frame, for the microbatch
  chunk_arena const* chunk = nullptr;
  unit_range units{};                   ///< units that are run
  std::byte* input = nullptr;           ///< given to the chunk
  std::byte* stash = nullptr;           ///< activations of the microbatch
  std::byte* gradient_stash = nullptr;  ///< what the first half of a backward keeps for the second
  int end_item = 0;
  bool runs_again = false;        ///< makes again what backwards read and forwards have not kept
  bool begins_gradients = false;  ///< overwrites gradients of parameters instead of adding to them
  backward_part part = backward_part::all;
  std::byte* of_input = nullptr;  ///< place for the gradient of the chunk's input; null: anywhere
  forward_watch* watch = nullptr;
};

/// A unit in a pass: its buffers, in the rank's arena or in a batch.
template <class Setting>
struct unit_frame {
  pass_frame<Setting>* pass = nullptr;
  int unit = 0;                    ///< its number in the model
  std::byte* input = nullptr;      ///< what the unit before has made
  std::byte* output = nullptr;     ///< first in the activation stash of the unit
  std::byte* of_output = nullptr;  ///< gradients, in a backward
  std::byte* of_input = nullptr;
  std::byte* gradient_stash = nullptr;  ///< the same, for the unit
  std::size_t stash_end =
      ~std::size_t{0};            ///< what is made again lies from here on in the working record,
  std::byte* working = nullptr;   ///< which is addressed as if it were behind the stash
  unsigned char steps_again = 0;  ///< a bit: only steps that have it run; 0: all
};

}  // namespace plait::execution
