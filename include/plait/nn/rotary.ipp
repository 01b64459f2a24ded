// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/nn/rotary.hpp"

#include <numbers>

namespace plait::nn::detail {

PLAIT_DECL double rotary_rate(rotary_options const& of, std::size_t head_width, std::size_t pair) {
  double const rate = std::pow(static_cast<double>(of.base),
                               -2 * static_cast<double>(pair) / static_cast<double>(head_width));
  double const slow = rate / of.factor.number();
  if (of.scaling == rotary_scaling::none) return rate;
  if (of.scaling == rotary_scaling::linear) return slow;
  double const turns =
      static_cast<double>(of.original_positions) * rate / (2 * std::numbers::pi_v<double>);
  double const low = of.low_frequency_factor.number(), high = of.high_frequency_factor.number();
  if (turns < low) return slow;
  if (turns > high) return rate;
  double const share = (turns - low) / (high - low);
  return (1 - share) * slow + share * rate;
}

}  // namespace plait::nn::detail
