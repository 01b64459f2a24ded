// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/testing/loss_laws.hpp"

#include <limits>
#include <utility>

#include "plait/testing/layer_laws.hpp"

namespace plait::testing::detail {

PLAIT_DECL void check_counts(check_report& report, loss_counts const& losses,
                             trial_setup const& setup) {
  for (auto const count : losses.of_integers)
    check_count(report, count, setup.tokens, setup.rows(), losses.are_weights);
  for (auto const count : losses.of_reals)
    check_count(report, count, setup.targets, setup.rows(), losses.are_weights);
}

PLAIT_DECL double count_of_row(loss_counts const& losses, trial_setup const& setup,
                               std::size_t row) {
  return losses.of_reals.empty() ? count_of_row(losses.of_integers, setup.tokens, setup.rows(), row)
                                 : count_of_row(losses.of_reals, setup.targets, setup.rows(), row);
}

PLAIT_DECL bool leave_out_targets(trial_setup& setup, loss_counts const& losses) {
  std::size_t const rows = setup.rows();
  bool changed = false;
  auto const keep = [&](trial_setup const& tried, bool is_good) {
    if (!is_good) return;
    setup = tried;
    setup.changed_tokens = setup.tokens;
    changed = true;
  };
  auto tried = setup;
  for (std::size_t const row : {std::size_t{0}, rows - 1}) {
    if (losses.of_reals.empty()) {
      set_row(tried.tokens, rows, row, ext::ignored_target);
      keep(tried, count_of_row(losses, tried, row) >= 0);
    } else {
      set_row(tried.targets, rows, row, std::numeric_limits<double>::quiet_NaN());
      keep(tried, count_of_row(losses, tried, row) == 0);
    }
    tried = setup;
  }
  // Removes one of several targets of a row.
  if (std::size_t const width = tried.targets.size() / rows; changed && width > 1) {
    std::size_t const row = rows / 2 + 1 < rows ? rows / 2 + 1 : 0;
    auto const full = count_of_row(losses, tried, row);
    tried.targets[row * width + 1] = std::numeric_limits<double>::quiet_NaN();
    keep(tried, count_of_row(losses, tried, row) < full);
  }
  return changed;
}

PLAIT_DECL bool check_uncounted(check_report& report, std::string const& where,
                                trial_setup const& setup, loss_counts const& losses,
                                trial const& got) {
  std::size_t const before = report.failures.size();
  for (std::size_t i = 0; i < got.parameters.size(); ++i) {
    if (!setup.is_input[i]) continue;
    bool ignored = false;
    auto const gradient = assemble(got, &rank_record::once, i, ignored);
    auto expected = gradient;
    for (std::size_t r = 0; r < setup.rows(); ++r)
      if (count_of_row(losses, setup, r) == 0) set_row(expected, setup.rows(), r, 0.0);
    compare(report, where, tensor_of(got, i), expected, gradient, 0,
            "must be 0 in a row whose targets do not count: write zeros to this row of l.dx, "
            "because l.dx contains other numbers before the call");
  }
  auto const loss = got.ranks[0].once.loss;
  if (report.failures.size() == before)
    compare(
        report, where, {"loss", 1, 1}, {0}, {loss - loss}, 0,
        ext::concat(
            {"must be finite if some rows have no target: leave out rows whose label is "
             "ext::ignored_target, ",
             ext::ignored_target,
             " (places without a sample have this label, too), and real targets that are nan"}));
  return report.failures.size() == before;
}

PLAIT_DECL bool use_labels_past_rows(trial_setup& setup, loss_counts const& losses,
                                     std::int32_t width) {
  if (setup.samples != 3 || losses.of_integers.empty()) return false;
  bool changed = false;
  // Rows 0 and 2 belong to other samples than row 1, whose sample changes.
  for (auto const& [row, label] : {std::pair{std::size_t{0}, width}, {std::size_t{2}, -1}}) {
    auto tried = setup;
    set_row(tried.tokens, setup.rows(), row, label);
    bool refused = count_of_row(losses, tried, row) < 0;
    for (std::size_t const classes : losses.classes)
      refused = refused || (classes > 0 && (label < 0 || std::size_t(label) >= classes) &&
                            count_of_row(losses, tried, row) != 0);
    if (refused) continue;
    setup = tried;
    setup.changed_tokens = setup.tokens;
    changed = true;
  }
  return changed;
}

PLAIT_DECL void check_labels_past_rows(check_report& report, std::string const& where,
                                       trial const& usual, trial const& got, std::int32_t width) {
  auto const change = [](trial const& of) {
    return of.ranks[0].changed.loss - of.ranks[0].once.loss;
  };
  compare(report, where, {"loss", 1, 1}, {change(usual)}, {change(got)},
          1e-9 * std::max(1.0, std::abs(change(usual))),
          ext::concat({"must not depend on another row when a label is ", width,
                       " or -1: the loss reads past its row; let count throw an input_error for "
                       "labels that it does not take, or declare `static constexpr std::size_t "
                       "classes = ...;`, so that trainers refuse them"}));
}

}  // namespace plait::testing::detail
