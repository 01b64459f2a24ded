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

/// The kind of an entry in a stage's list: four kinds of computing, four ends of messages.
///
/// `backward` is the full backward pass of a chunk: gradients of its input and its parameters. Its
/// halves are `backward_input`, behind which the gradient of the input may be sent, and
/// `backward_parameters`. Activations travel to the next chunk, gradients to the previous one.
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

/// The words used for `kind` in messages and pictures.
[[nodiscard]] constexpr std::string_view to_string(work kind) {
  constexpr std::string_view words[]{
      "forward",       "backward",         "send_activation", "receive_activation",
      "send_gradient", "receive_gradient", "backward_input",  "backward_parameters"};
  static_assert(std::size(words) == work_kinds);
  return words[static_cast<int>(kind)];
}

/// Says whether `kind` computes; the other kinds are ends of messages.
[[nodiscard]] constexpr bool computes(work kind) {
  return kind == work::forward || kind == work::backward || kind == work::backward_input ||
         kind == work::backward_parameters;
}

/// Says whether `kind` makes gradients of parameters.
[[nodiscard]] constexpr bool sums_gradients(work kind) {
  return kind == work::backward || kind == work::backward_parameters;
}

/// One entry of a stage's list: a kind of work on one microbatch.
struct scheduled_work {
  work kind = work::forward;
  int microbatch = 0;
  int chunk = 0;  ///< of those of the stage

  friend constexpr bool operator==(scheduled_work const&, scheduled_work const&) = default;
};

/// Returns text such as "send_gradient 3", or "send_gradient 3 of chunk 1".
[[nodiscard]] std::string to_string(scheduled_work op);

/// The stages to which the chunks of a model go, in the order of its layers.
///
/// Of two chunks that follow each other on one stage the first hands its output over without a
/// message, and the second the gradient.
enum class chunk_placement : int {
  line,  ///< each stage has one
  loop,  ///< to all stages in turn, again and again
  wave   ///< to all stages in turn, back from the last to the first, and so on
};

/// A chunk of a model: one of those of a stage, from the first layers on.
struct chunk_place {
  int stage = 0, chunk = 0;

  friend constexpr bool operator==(chunk_place const&, chunk_place const&) = default;
};

/// The place of a chunk by its number in the model; its stage is -1 for the chunk before the first.
[[nodiscard]] constexpr chunk_place place_of_chunk(int number, int stages, chunk_placement how) {
  if (number < 0) return {-1, 0};
  int const along = number % stages, chunk = number / stages;
  bool const is_back = how == chunk_placement::wave && chunk % 2 != 0;
  return {is_back ? stages - 1 - along : along, chunk};
}
/// The number of a chunk in the model.
[[nodiscard]] constexpr int number_of_chunk(chunk_place at, int stages, chunk_placement how) {
  bool const is_back = how == chunk_placement::wave && at.chunk % 2 != 0;
  return at.chunk * stages + (is_back ? stages - 1 - at.stage : at.stage);
}

/// The chunk at the other end of what a chunk of one of `stages` stages sends or receives; its
/// stage is -1 for the chunk before the first.
[[nodiscard]] constexpr chunk_place partner_of(work message, chunk_place at, int stages,
                                               chunk_placement how) {
  bool const is_behind = message == work::send_activation || message == work::receive_gradient;
  return place_of_chunk(number_of_chunk(at, stages, how) + (is_behind ? 1 : -1), stages, how);
}

/// The kind of work at the other end of a message: a send for a receive, a receive for a send.
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

/// The greatest number of microbatches, counted once for each chunk, of which a stage holds
/// something at once.
///
/// A slot is taken and given back by operations of the stage's list:
///   activations  what the layers save:        forward            .. backward
///   inputs       the activation received:     receive_activation .. backward
///   gradients    the gradient received:       receive_gradient   .. backward
/// Where backward passes come in halves, a gradient is given back by backward_input, and the others
/// by backward_parameters. Without backward passes an input and an activation slot are given back
/// by the forward. With one chunk microbatch i uses slot `i % n` of n; with several, plan::arena
/// says where each lies.
struct stage_slots {
  int activations = 0;
  int inputs = 0;
  int gradients = 0;

  friend constexpr bool operator==(stage_slots const&, stage_slots const&) = default;
};

/// All that one stage does in a step, in the order in which it does it.
struct stage_program {
  std::vector<scheduled_work> operations;
  stage_slots slots;
};

/// The lists of all stages for one step.
///
/// A stage runs its list from front to back; sends and receives may block until the other end has
/// come to the same message. `check` (proof.hpp) proves that this ends.
struct timetable {
  int microbatches = 0;
  bool has_backward = true;
  lean_vector<stage_program> stages;
  int chunks = 1;                ///< of each stage
  bool splits_backward = false;  ///< backward passes come in halves
  chunk_placement placement = chunk_placement::line;

  [[nodiscard]] constexpr int stage_count() const { return static_cast<int>(stages.size()); }
  [[nodiscard]] constexpr int chunk_count() const { return stage_count() * chunks; }
  [[nodiscard]] constexpr int number_of(chunk_place at) const {
    return number_of_chunk(at, stage_count(), placement);
  }
  [[nodiscard]] constexpr chunk_place place_of(int number) const {
    return place_of_chunk(number, stage_count(), placement);
  }
  /// The other end of what a chunk sends or receives, or hands over.
  [[nodiscard]] constexpr chunk_place partner(work message, chunk_place at) const {
    return partner_of(message, at, stage_count(), placement);
  }
  /// Whether a chunk sends or receives a message of a kind: not at an end of the model, nor where
  /// its neighbour is on the same stage.
  [[nodiscard]] constexpr bool has_message(work message, chunk_place at) const {
    auto const other = partner(message, at);
    return other.stage >= 0 && other.chunk < chunks && other.stage != at.stage;
  }
};

/// A timetable is wrong; only a schedule that was not checked at compile time can cause it.
struct schedule_error : error {
  using error::error;
};

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/schedule/operation.ipp"
#endif
