// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/header_only.hpp"
#include "plait/layer/layer.hpp"
#include "plait/plan/model/outline.hpp"
#include "plait/testing/layer_trial.hpp"
#include "plait/testing/report.hpp"

/// Laws about a loss and its targets: targets that count, targets that do not count, and labels
/// that are not the number of a class.
namespace plait::testing::detail {

template <class Target>
using target_count = double (*)(std::span<Target const>);

/// The functions `count` of the losses in a layer: one loss, or several in a sum_of.
struct loss_counts {
  std::vector<target_count<std::int32_t>> of_integers;
  std::vector<target_count<double>> of_reals;
  bool are_weights = false;  ///< the functions return sums of weights, not numbers of targets
  std::vector<std::size_t> classes;  ///< `classes` of each loss in of_integers; 0: not declared

  [[nodiscard]] bool empty() const { return of_integers.empty() && of_reals.empty(); }
};

template <class L>
void add_loss(loss_counts& to) {
  if constexpr (std::is_same_v<typename L::output, loss_value>) {
    constexpr bool takes_reals = leaf_of<L>.inputs[1].kind == value_kind::reals;
    if constexpr (requires(
                      std::span<std::conditional_t<takes_reals, double, std::int32_t> const> some) {
                    requires std::is_floating_point_v<decltype(L::count(some))>;
                  })
      to.are_weights = true;
    if constexpr (takes_reals) {
      to.of_reals.push_back([](std::span<double const> some) {
        if constexpr (requires { L::count(some); }) return static_cast<double>(L::count(some));
        else {
          std::vector<float> const converted(some.begin(), some.end());
          return static_cast<double>(L::count(std::span<float const>(converted)));
        }
      });
    } else {
      to.of_integers.push_back(
          [](std::span<std::int32_t const> some) { return static_cast<double>(L::count(some)); });
      if constexpr (requires { L::classes; }) to.classes.push_back(L::classes);
      else to.classes.push_back(0);
    }
  }
}
template <class L>
loss_counts losses_of() {
  loss_counts out;
  [&]<class... Leaf>(std::type_identity<std::tuple<Leaf...>>) {
    (add_loss<Leaf>(out), ...);
  }(std::type_identity<planning::leaves_of<L>>{});
  return out;
}

/// Checks that the counts of pieces of the targets, as ranks and microbatches have them, add up to
/// the count of all targets.
template <class Target>
void check_count(check_report& report, target_count<Target> count, std::vector<Target> const& all,
                 std::size_t rows, bool are_weights) {
  auto const width = all.size() / rows;
  auto const of_rows = [&](std::size_t first, std::size_t number) {
    return count(std::span(all).subspan(first * width, number * width));
  };
  auto const fail = [&](auto const&... parts) {
    report.failures.push_back(ext::concat({"count of the loss: ", parts...}));
  };
  try {
    auto const whole = of_rows(0, rows);
    if (!(whole >= 0) || (!are_weights && whole > static_cast<double>(all.size())))
      fail("it returned ", number_text(whole), " of ", all.size(),
           " targets; it must be between 0 and the number of targets, and count each target that "
           "contributes once");
    double by_rows = 0;
    for (std::size_t r = 0; r < rows; ++r) by_rows += of_rows(r, 1);
    auto const cut = of_rows(0, rows / 3) + of_rows(rows / 3, rows - rows / 3);
    double const bound = are_weights ? 1e-6 * std::max(1.0, std::abs(whole)) : 0;
    if (!(std::abs(by_rows - whole) <= bound) || !(std::abs(cut - whole) <= bound))
      fail("it returned ", number_text(whole), " of ", rows, " rows together, but ",
           number_text(by_rows), " for the same rows one by one, and ", number_text(cut),
           " for the first third and the rest",
           "; ranks and microbatches count their own rows, so the counts of parts must add up: "
           "count each target independently of the others");
  } catch (std::exception const& failure) {
    fail(failure.what(),
         "; check_layer draws labels below layer_options::token_count, or the loss's classes, or "
         "the width of its input");
  }
}
void check_counts(check_report& report, loss_counts const& losses, trial_setup const& setup);

/// Replaces the real targets of a setup by 0 and 1 if a count refuses them. A loss that reads the
/// number of a class from a column of its targets refuses other numbers.
inline void use_targets_that_count(trial_setup& setup, loss_counts const& losses) {
  try {
    for (auto const count : losses.of_reals) (void)count(setup.targets);
  } catch (std::exception const&) {
    for (std::size_t i = 0; i < setup.targets.size(); ++i)
      setup.targets[i] = static_cast<double>(5 * i / 3 % 2);
  }
}

/// Returns the number of targets of a row that count, over all losses, or the sum of their weights;
/// -1 if a count refuses the targets.
template <class Target>
double count_of_row(std::vector<target_count<Target>> const& losses, std::vector<Target> const& all,
                    std::size_t rows, std::size_t row) {
  double out = 0;
  auto const width = all.size() / rows;
  try {
    for (auto const count : losses) out += count(std::span(all).subspan(row * width, width));
    return out;
  } catch (std::exception const&) {
    return -1;
  }
}
double count_of_row(loss_counts const& losses, trial_setup const& setup, std::size_t row);

template <class T>
void set_row(std::vector<T>& all, std::size_t rows, std::size_t row, T value) {
  auto const width = all.size() / rows;
  std::fill_n(all.begin() + std::ptrdiff_t(row * width), width, value);
}

/// Removes the targets of two rows from a setup. Labels become ext::ignored_target, as in data sets
/// without a target and in places without a sample. Real targets become NaN if the losses do not
/// count NaN. Returns false if nothing was changed.
bool leave_out_targets(trial_setup& setup, loss_counts const& losses);

/// Checks that each row whose targets do not count has gradient 0. Returns false if a row has
/// another gradient.
bool check_uncounted(check_report& report, std::string const& where, trial_setup const& setup,
                     loss_counts const& losses, trial const& got);

/// Gives rows labels that are not the number of a column: `width` and -1. It omits labels that a
/// count refuses, and labels that trainers refuse because of the `classes` of the loss. Returns
/// false if no such label remains.
bool use_labels_past_rows(trial_setup& setup, loss_counts const& losses, std::int32_t width);

/// Compares how the loss changes if one sample changes: the change must not depend on the label of
/// another sample. In `usual` all labels are numbers of columns, in `got` some are not.
void check_labels_past_rows(check_report& report, std::string const& where, trial const& usual,
                            trial const& got, std::int32_t width);

}  // namespace plait::testing::detail

#if PLAIT_HEADER_ONLY
#include "plait/testing/loss_laws.ipp"
#endif
