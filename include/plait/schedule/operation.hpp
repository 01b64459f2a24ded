// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plait/core/error.hpp"

namespace plait {

/// What one entry of a stage's list does: two kinds of computing, four ends of messages.
///
/// `backward` is the full backward pass of the stage: gradients of its input and its parameters.
/// Activations travel to the next stage, gradients to the previous one.
enum class work : std::uint8_t {
  forward,
  backward,
  send_activation,
  receive_activation,
  send_gradient,
  receive_gradient
};

/// The number of enumerators of `work`.
inline constexpr int work_kinds = 6;

/// The words used for `kind` in messages and pictures.
[[nodiscard]] constexpr std::string_view to_string(work kind) {
  constexpr std::string_view words[work_kinds]{"forward",         "backward",
                                               "send_activation", "receive_activation",
                                               "send_gradient",   "receive_gradient"};
  return words[static_cast<int>(kind)];
}

/// Whether `kind` computes; the other kinds are ends of messages.
[[nodiscard]] constexpr bool computes(work kind) {
  return kind == work::forward || kind == work::backward;
}

/// One entry of a stage's list: a kind of work on one microbatch.
struct scheduled_work {
  work kind = work::forward;
  int microbatch = 0;

  friend constexpr bool operator==(scheduled_work const&, scheduled_work const&) = default;
};

/// For example "send_gradient 3".
[[nodiscard]] inline std::string to_string(scheduled_work op) {
  return std::string{to_string(op.kind)} + ' ' + std::to_string(op.microbatch);
}

/// The stage at the other end of a message that `stage` sends or receives.
[[nodiscard]] constexpr int partner_stage(work message, int stage) {
  return message == work::send_activation || message == work::receive_gradient ? stage + 1
                                                                               : stage - 1;
}

/// The kind of work at the other end of a message: a send for a receive, a receive for a send.
[[nodiscard]] constexpr work other_end(work message) {
  switch (message) {
    case work::send_activation: return work::receive_activation;
    case work::receive_activation: return work::send_activation;
    case work::send_gradient: return work::receive_gradient;
    case work::receive_gradient: return work::send_gradient;
    default: return message;
  }
}

/// How many microbatches a stage holds at once; its storage has this many slots of each kind.
///
/// Microbatch i uses slot `i % n` of the n slots. A slot is taken and given back by operations of
/// the stage's list:
///   activations  what the layers save:        forward            .. backward
///   inputs       the activation received:     receive_activation .. backward
///   gradients    the gradient received:       receive_gradient   .. backward
/// Without backward passes an input and an activation slot are given back by the forward.
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
  std::vector<stage_program> stages;
};

/// A timetable is wrong; only a schedule that was not checked at compile time can cause it.
struct schedule_error : error {
  using error::error;
};

}  // namespace plait
