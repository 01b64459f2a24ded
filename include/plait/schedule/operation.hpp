// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// The kind of an operation in a stage's list: four kinds of computation, and the two ends of two
/// kinds of messages.
///
/// `backward` is the full backward pass of a chunk: gradients of its input and its parameters. Its
/// halves are `backward_input`, after which the gradient of the input may be sent, and
/// `backward_parameters`. Activations are sent to the next chunk, gradients to the previous chunk.
enum class work : std::uint8_t {
  forward,
  backward,
  send_activation,
  receive_activation,
  send_gradient,
  receive_gradient,
  backward_input,
  backward_parameters
};

/// The number of enumerators of `work`.
inline constexpr int work_kinds = int(work::backward_parameters) + 1;

/// Returns the name of `kind` for messages and pictures.
[[nodiscard]] constexpr std::string_view to_string(work kind) {
  constexpr std::string_view words[]{
      "forward",       "backward",         "send_activation", "receive_activation",
      "send_gradient", "receive_gradient", "backward_input",  "backward_parameters"};
  static_assert(std::size(words) == work_kinds);
  return words[static_cast<int>(kind)];
}

/// Returns true if `kind` is a computation; the other kinds are ends of messages.
[[nodiscard]] constexpr bool computes(work kind) {
  return kind == work::forward || kind == work::backward || kind == work::backward_input ||
         kind == work::backward_parameters;
}

/// Returns true if `kind` computes gradients of parameters.
[[nodiscard]] constexpr bool sums_gradients(work kind) {
  return kind == work::backward || kind == work::backward_parameters;
}

/// One entry of a stage's list: a kind of work on one microbatch.
struct scheduled_work {
  work kind = work::forward;
  int microbatch = 0;
  int chunk = 0;  ///< index among the chunks of the stage

  friend constexpr bool operator==(scheduled_work const&, scheduled_work const&) = default;
};

/// Returns text such as "send_gradient 3", or "send_gradient 3 of chunk 1".
[[nodiscard]] std::string to_string(scheduled_work op);

/// The rule that assigns the chunks of a model to stages. Chunks are numbered in the order of the
/// model's layers.
///
/// If two consecutive chunks are on one stage, the first passes its output on without a message,
/// and the second passes back the gradient.
enum class chunk_placement : int {
  line,  ///< each stage has one chunk
  loop,  ///< chunks go to stages 0, 1, ..., n - 1, then to 0, 1, ... again
  wave   ///< chunks go to stages 0, 1, ..., n - 1, then back to n - 1, ..., 0, and so on
};

/// A chunk of a model, identified by its stage and its index among the chunks of the stage.
struct chunk_place {
  int stage = 0, chunk = 0;

  friend constexpr bool operator==(chunk_place const&, chunk_place const&) = default;
};

/// Returns the stage of chunk `number` of the model, and the index of the chunk on this stage. If
/// `number` is negative, there is no such chunk, and the stage is -1.
[[nodiscard]] constexpr chunk_place place_of_chunk(int number, int stages, chunk_placement how) {
  if (number < 0) return {-1, 0};
  int const along = number % stages, chunk = number / stages;
  bool const is_back = how == chunk_placement::wave && chunk % 2 != 0;
  return {is_back ? stages - 1 - along : along, chunk};
}
/// Returns the number that a chunk has among all chunks of the model.
[[nodiscard]] constexpr int number_of_chunk(chunk_place at, int stages, chunk_placement how) {
  bool const is_back = how == chunk_placement::wave && at.chunk % 2 != 0;
  return at.chunk * stages + (is_back ? stages - 1 - at.stage : at.stage);
}

/// Returns the chunk at the other end of a message that chunk `at` sends or receives. If `at` is
/// the model's first chunk and the message would come from a previous chunk or go to it, the stage
/// of the result is -1.
[[nodiscard]] constexpr chunk_place partner_of(work message, chunk_place at, int stages,
                                               chunk_placement how) {
  bool const is_behind = message == work::send_activation || message == work::receive_gradient;
  return place_of_chunk(number_of_chunk(at, stages, how) + (is_behind ? 1 : -1), stages, how);
}

/// Returns the kind of work at the other end of a message: a send for a receive, a receive for a
/// send.
[[nodiscard]] constexpr work other_end(work message) {
  switch (message) {
    case work::send_activation: return work::receive_activation;
    case work::receive_activation: return work::send_activation;
    case work::send_gradient: return work::receive_gradient;
    case work::receive_gradient: return work::send_gradient;
    case work::forward:
    case work::backward:
    case work::backward_input:
    case work::backward_parameters: break;
  }
  return message;
}

/// The numbers of slots of a stage: the greatest numbers of microbatches, counted once for each
/// chunk, whose data the stage keeps at one time. For example, with one_forward_one_backward on 4
/// stages, stage 0 needs 4 activation slots and stage 3 needs 1.
///
/// A slot is taken and released by operations of the stage's list:
///   activations  values that the layers save: forward            .. backward
///   inputs       a received activation:       receive_activation .. backward
///   gradients    a received gradient:         receive_gradient   .. backward
/// With split backward passes, backward_input releases the slot of a received gradient, and
/// backward_parameters the other slots. Without backward passes, the forward releases input and
/// activation slots. With one chunk, microbatch i uses slot `i % n`, for n slots; with several
/// chunks, plan::arena assigns the slots.
struct stage_slots {
  int activations = 0;
  int inputs = 0;
  int gradients = 0;

  friend constexpr bool operator==(stage_slots const&, stage_slots const&) = default;
};

/// The operations of one stage in a step, in order.
struct stage_program {
  std::vector<scheduled_work> operations;
  stage_slots slots;
};

/// The lists of operations of all stages for one step.
///
/// A stage runs its list from front to back; a send or receive may block until the other end
/// reaches the same message. `check` (proof.hpp) proves that all stages reach the ends of their
/// lists.
struct timetable {
  int microbatches = 0;
  bool has_backward = true;
  lean_vector<stage_program> stages;
  int chunks = 1;                ///< number of chunks on each stage
  bool splits_backward = false;  ///< backward passes are split into two halves
  chunk_placement placement = chunk_placement::line;

  [[nodiscard]] constexpr int stage_count() const { return static_cast<int>(stages.size()); }
  [[nodiscard]] constexpr int chunk_count() const { return stage_count() * chunks; }
  [[nodiscard]] constexpr int number_of(chunk_place at) const {
    return number_of_chunk(at, stage_count(), placement);
  }
  [[nodiscard]] constexpr chunk_place place_of(int number) const {
    return place_of_chunk(number, stage_count(), placement);
  }
  /// Returns the chunk at the other end of a message that chunk `at` sends or receives.
  [[nodiscard]] constexpr chunk_place partner(work message, chunk_place at) const {
    return partner_of(message, at, stage_count(), placement);
  }
  /// Returns true if chunk `at` sends or receives messages of this kind. The chunk does not if it
  /// has no neighbour on that side in the model, or if this neighbour is on the same stage.
  [[nodiscard]] constexpr bool has_message(work message, chunk_place at) const {
    auto const other = partner(message, at);
    return other.stage >= 0 && other.chunk < chunks && other.stage != at.stage;
  }
};

/// Thrown if a timetable has a fault. Only a schedule that was not checked at compile time can
/// cause this error.
struct schedule_error : error {
  using error::error;
};

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/schedule/operation.ipp"
#endif
