// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "plait/backend/host/maths/rounded_adamw.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/number_range.hpp"
#include "plait/train/options/optimizer.hpp"
#include "plait/train/state/state_rounding.hpp"

namespace plait::ext {

/// AdamW whose two states are stored as bfloat16, in half of the memory of states in float. Each
/// step computes in the type of the parameters, float or double, and then rounds the new states
/// stochastically: the mean of the rounded states is the exact state, so that small changes are
/// not lost. The random numbers are functions of the trainer's seed, the step, the parameter and
/// the index of the element in the whole parameter, so the states are the same under every plan.
///
/// The settings are those of adamw. Ranks and checkpoints compare one more setting, `state_bytes`.
///
/// Example (tests/train/adamw_bfloat16_test.cpp optimizer):
/// Errors: a parameter in bfloat16 does not compile; see precision.
struct adamw_bfloat16 : adamw {
  /// The type in which the states are stored.
  using state_element = bfloat16;

  /// Returns the settings of adamw and the bytes of an element of a state.
  [[nodiscard]] std::array<setting, 6> settings() const {
    auto const [rate, beta1_setting, beta2_setting, epsilon_setting, decay] = adamw::settings();
    return {{rate,
             beta1_setting,
             beta2_setting,
             epsilon_setting,
             decay,
             {"state_bytes", sizeof(state_element), number_ranges::at_least_1}}};
  }
};

static_assert(optimizer<adamw_bfloat16>);

}  // namespace plait::ext
