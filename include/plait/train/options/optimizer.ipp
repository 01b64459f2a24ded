// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/train/options/optimizer.hpp"

#include <cmath>

namespace plait {

PLAIT_DECL std::array<ext::setting, 5> adamw::settings() const {
  using namespace number_ranges;
  return {{{"learning_rate", learning_rate, finite_from_0},
           {"beta1", beta1, from_0_to_below_1},
           {"beta2", beta2, from_0_to_below_1},
           {"epsilon", epsilon, finite_above_0},
           {"weight_decay", weight_decay, finite_from_0}}};
}

PLAIT_DECL adamw::numbers adamw::numbers_of(std::int64_t age, double rate_factor) const {
  auto const t = static_cast<double>(age + 1);
  return {learning_rate * rate_factor, 1 - std::pow(beta1, t), 1 - std::pow(beta2, t)};
}

PLAIT_DECL std::array<ext::setting, 3> sgd::settings() const {
  using namespace number_ranges;
  return {{{"learning_rate", learning_rate, finite_from_0},
           {"momentum", momentum, from_0_to_below_1},
           {"weight_decay", weight_decay, finite_from_0}}};
}

}  // namespace plait
