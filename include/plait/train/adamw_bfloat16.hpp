// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plait/backend/arguments.hpp"
#include "plait/backend/host/maths/rounded_adamw.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/train/options/optimizer.hpp"
#include "plait/train/state/state_rounding.hpp"

namespace plait::ext {

/// AdamW whose two states are stored as bfloat16, in half of the memory of states in float. Each
/// step computes in the type of the parameters, float or double, and then rounds the new states
/// stochastically: the mean of the rounded states is the exact state, so small changes are not
/// lost. The random numbers are functions of the trainer's seed, the step, the parameter, and the
/// index of the element in the whole parameter, so every plan draws the same numbers. If the
/// gradients have the same bits, as under `reproducible`, the states have the same bits, too.
///
/// The settings are the settings of adamw. Ranks and checkpoints also compare the size of an
/// element of a state, and checkpoints the name. A checkpoint of adamw is refused, unless
/// checkpoint_options::allow contains "optimizer"; its states are then rounded to nearest. Errors:
/// parameters in bfloat16 do not compile; write precision<bfloat16, float>.
///
/// Example (tests/train/adamw_bfloat16_test.cpp optimizer):
///     plait::ext::adamw_bfloat16 const in_half{.learning_rate = 3e-3, .weight_decay = 0.1};
struct adamw_bfloat16 {
  using concept_tag = optimizer_tag;
  using numbers = adamw_numbers;
  /// The type in which the states are stored.
  using state_element = bfloat16;
  /// The name in checkpoints.
  static constexpr char const* name = "adamw_bfloat16";
  static constexpr int states = adamw::states;
  /// The names of the states in checkpoints.
  static constexpr auto state_names = adamw::state_names;

  double learning_rate = adamw{}.learning_rate;
  double beta1 = adamw{}.beta1, beta2 = adamw{}.beta2;
  double epsilon = adamw{}.epsilon;
  double weight_decay = adamw{}.weight_decay;
  bool (*decays)(parameter_description const&) = decay_all;

  /// Returns the optimizer with the same settings whose states have the type of the parameters.
  [[nodiscard]] adamw with_wide_states() const {
    return {learning_rate, beta1, beta2, epsilon, weight_decay, decays};
  }
  /// Returns the settings; see adamw::settings.
  [[nodiscard]] auto settings() const { return with_wide_states().settings(); }
  /// Returns the numbers that change from update to update; see adamw::numbers_of.
  [[nodiscard]] numbers numbers_of(std::int64_t age, double rate_factor) const {
    return with_wide_states().numbers_of(age, rate_factor);
  }
  /// Enqueues one update of all parameters of an arena, which is a rounded_arena; see
  /// adamw::update.
  template <class Queue, class Arena>
  void update(Queue queue, Arena const& of, numbers const* now) const {
    with_wide_states().update(queue, of, now);
  }
};

static_assert(optimizer<adamw_bfloat16>);

}  // namespace plait::ext
