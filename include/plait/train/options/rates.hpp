// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numbers>
#include <string>
#include <type_traits>
#include <utility>

#include "plait/core/concat.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/number_range.hpp"

namespace plait::detail {

/// The base class of schedules whose factor falls from 1 to a final fraction at step `total`, and
/// then stays constant.
class falling_rate {
 public:
  [[nodiscard]] std::int64_t total() const { return total_; }

 protected:
  falling_rate(std::string const& name, std::int64_t total, double final_fraction);
  [[nodiscard]] double final_fraction() const { return final_; }
  /// Returns the part of the fall that is completed at step `at`, as a fraction from 0 to 1.
  /// `first`: the step at which the fall begins.
  [[nodiscard]] double done(std::int64_t at, std::int64_t first) const {
    return std::min(1.0, static_cast<double>(at - first) / static_cast<double>(total_ - first));
  }

 private:
  std::int64_t total_;
  double final_;
};

}  // namespace plait::detail

/// Ready-made functions for `trainer_options::rate`. Such a function maps the step, counted from 0,
/// to a factor of the optimizer's learning rate. The optimizer's learning rate is therefore the
/// greatest rate of the run. A function of your own, such as a lambda, can be used in the same way.
///
/// All step numbers count from the start of training, also in a schedule within a `warm_up`: in
/// `warm_up(10, cosine(100))` the rate rises in steps 0 to 9, falls from step 10 on and has its
/// last value from step 100 on, not from step 110 on.
namespace plait::rates {

/// A factor of 1 at every step.
struct constant {
  double operator()(std::int64_t /*at*/) const { return 1; }
};

/// Falls along half a cosine from 1 to `final_fraction` at step `total`, and then stays at
/// `final_fraction`. By default `final_fraction` is 0.1.
///
/// Source: PyTorch's CosineAnnealingLR, which, unlike this class, rises again after step `total`.
class cosine : public detail::falling_rate {
 public:
  /// Makes the schedule.
  ///
  /// Errors: input_error if `total` is below 1 or `final_fraction` negative or not finite.
  explicit cosine(std::int64_t total, double final_fraction = 0.1)
      : falling_rate("rates::cosine", total, final_fraction) {}
  /// Returns the factor at step `at`. `first`: the step at which the fall begins.
  double operator()(std::int64_t at, std::int64_t first = 0) const;
};

/// Falls along a line from 1 to `final_fraction` at step `total`, and then stays at
/// `final_fraction`.
///
/// Source: PyTorch's LinearLR with start_factor = 1.
class linear : public detail::falling_rate {
 public:
  /// Makes the schedule.
  ///
  /// Errors: the errors of cosine.
  explicit linear(std::int64_t total, double final_fraction = 0)
      : falling_rate("rates::linear", total, final_fraction) {}
  /// Returns the factor at step `at`. `first`: the step at which the fall begins.
  double operator()(std::int64_t at, std::int64_t first = 0) const {
    return 1 + (final_fraction() - 1) * done(at, first);
  }
};

/// Begins at 1 and is multiplied by `factor` after every `every` steps: `step(30, 0.1)` returns 0.1
/// from step 30 on and 0.01 from step 60 on.
///
/// Source: PyTorch's StepLR.
class step {
 public:
  /// Makes the schedule.
  ///
  /// Errors: input_error if `every` is below 1 or `factor` negative or not finite.
  explicit step(std::int64_t every, double factor = 0.1);
  double operator()(std::int64_t at) const {
    return std::pow(factor_, static_cast<double>(at / every_));
  }

 private:
  std::int64_t every_;
  double factor_;
};

/// Rises along half a cosine from 1 / `initial_divisor` to 1 in the first fraction `rise` of all
/// steps. Then falls along half a cosine to 1 / (`initial_divisor` * `final_divisor`) at step
/// `total` - 1, and stays at this value.
///
/// Source: PyTorch's OneCycleLR, whose max_lr is the optimizer's learning rate here and whose
/// pct_start, div_factor and final_div_factor are the other three numbers. Smith, Topin,
/// "Super-convergence", 2018.
class one_cycle {
 public:
  /// Makes the schedule.
  ///
  /// Errors: input_error if `total` is below 1, `rise` not from 0 to 1, or a divisor not positive.
  explicit one_cycle(std::int64_t total, double rise = 0.3, double initial_divisor = 25,
                     double final_divisor = 1e4);
  double operator()(std::int64_t at) const;

 private:
  static double between(double from, double to, double done) {
    return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * done));
  }
  double last_, peak_, initial_, final_;
};

/// Rises linearly over `steps` steps to the first factor of `then`, and follows `then` from step
/// `steps` on. In step 0 the factor is 1 / `steps` of that first factor and not 0, so that step 0
/// trains, too. If `steps` is 0, there is no rise.
///
/// `then` is called with the step since the start of training. A `cosine` or `linear` falls from
/// the end of the rise to its own `total`. Other functions, such as a `step`, another `warm_up` or
/// a lambda, get only the step and do not depend on the rise.
template <class Then = constant>
  requires std::is_invocable_r_v<double, Then const&, std::int64_t>
class warm_up {
 public:
  /// Makes a schedule that rises for `steps` steps and then follows `then`.
  ///
  /// Errors: input_error if `steps` is negative, or if the total of `then` is not greater than
  ///         `steps`.
  explicit warm_up(std::int64_t steps, Then then = {}) : steps_(steps), then_(std::move(then)) {
    detail::require_range("rates::warm_up: steps", static_cast<double>(steps),
                          number_ranges::at_least_0);
    if constexpr (requires { then_.total(); })
      detail::require_range(
          ext::concat({"rates::warm_up(", steps, ", then): the total of then"}),
          static_cast<double>(then_.total()),
          {static_cast<double>(steps) + 1, number_ranges::infinite,
           "more than the steps of the rise, because it counts from the start of training"});
  }
  double operator()(std::int64_t at) const {
    if (at >= steps_) return after(at);
    return static_cast<double>(at + 1) / static_cast<double>(steps_) * after(steps_);
  }

 private:
  [[nodiscard]] double after(std::int64_t at) const {
    if constexpr (requires { then_.total(); }) return then_(at, steps_);
    else return then_(at);
  }

  std::int64_t steps_;
  Then then_;
};

}  // namespace plait::rates

namespace plait::execution {

/// Returns the factor by which the learning rate is multiplied at a step; 1 if `rate` is empty.
///
/// Errors: input_error if the factor is negative or not finite, or if it is above 1 and `allowed`
///         is false.
double rate_at(std::function<double(std::int64_t)> const& rate, std::int64_t step,
               bool allowed = false);

/// Calls each(step) for steps 0, 1, 2, 4, ... 2^20. A schedule is a function, which cannot be
/// compared as a whole, so ranks and checkpoints compare its values at these steps.
template <class Each>
void for_some_steps(Each each) {
  for (std::int64_t step = 0; step <= std::int64_t{1} << 20; step = std::max(2 * step, step + 1))
    each(step);
}

}  // namespace plait::execution

#if PLAIT_HEADER_ONLY
#include "plait/train/options/rates.ipp"
#endif
