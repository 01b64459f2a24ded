// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/train/options/rates.hpp"

#include <cstdio>

#include "plait/core/error.hpp"

namespace plait::detail {

PLAIT_DECL falling_rate::falling_rate(std::string const& name, std::int64_t total,
                                      double final_fraction)
    : total_(total), final_(final_fraction) {
  require_range(concat({name, ": total"}), static_cast<double>(total), number_ranges::at_least_1);
  require_range(concat({name, ": final_fraction"}), final_fraction, number_ranges::finite_from_0);
}

}  // namespace plait::detail

namespace plait::rates {

PLAIT_DECL double cosine::operator()(std::int64_t at, std::int64_t first) const {
  double const last = final_fraction();
  return last + (1 - last) * 0.5 * (1 + std::cos(std::numbers::pi * done(at, first)));
}

PLAIT_DECL step::step(std::int64_t every, double factor) : every_(every), factor_(factor) {
  detail::require_range("rates::step: every", static_cast<double>(every),
                        number_ranges::at_least_1);
  detail::require_range("rates::step: factor", factor, number_ranges::finite_from_0);
}

PLAIT_DECL one_cycle::one_cycle(std::int64_t total, double rise, double initial_divisor,
                                double final_divisor)
    : last_(static_cast<double>(total) - 1),
      peak_(rise * static_cast<double>(total) - 1),
      initial_(1 / initial_divisor),
      final_(1 / initial_divisor / final_divisor) {
  detail::require_range("rates::one_cycle: total", static_cast<double>(total),
                        number_ranges::at_least_1);
  detail::require_range("rates::one_cycle: rise", rise, number_ranges::from_0_to_1);
  for (double const divisor : {initial_divisor, final_divisor})
    detail::require_range("rates::one_cycle: a divisor", divisor, number_ranges::finite_above_0);
}

PLAIT_DECL double one_cycle::operator()(std::int64_t at) const {
  auto const now = static_cast<double>(at);
  if (now <= peak_) return between(initial_, 1, peak_ > 0 ? now / peak_ : 1);
  if (now >= last_) return final_;
  return between(1, final_, (now - peak_) / (last_ - peak_));
}

}  // namespace plait::rates

namespace plait::execution {

[[noreturn]] PLAIT_DECL void refuse_factor(double factor, std::int64_t step) {
  char number[32];
  std::snprintf(number, sizeof number, "%.6g", factor);
  auto const text = concat({"trainer_options::rate returned ", number, " at step ", step, "; "});
  if (!(factor > 1) || std::isinf(factor))
    throw input_error({text, "the factor of the learning rate must be finite and not negative"});
  throw input_error({text,
                     "this is not a learning rate but the factor by which the optimizer's "
                     "learning_rate is multiplied. Set the optimizer's learning_rate to the "
                     "greatest rate and return factors from 0 to 1, or set .rate_above_1 = true"});
}

PLAIT_DECL double rate_at(std::function<double(std::int64_t)> const& rate, std::int64_t step,
                          bool allowed) {
  if (!rate) return 1;
  double const factor = rate(step);
  constexpr double rounding = 1e-9;  // tolerance for a function whose greatest value is 1
  if (factor >= 0 && factor <= (allowed ? number_ranges::greatest_finite : 1 + rounding))
    return factor;
  refuse_factor(factor, step);
}

}  // namespace plait::execution
