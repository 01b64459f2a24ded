// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/testing/layer_checker.hpp"

#include <exception>

#include "plait/core/random_normal.hpp"

namespace plait::testing::detail {

PLAIT_DECL std::vector<double> random_numbers(random_key key, std::size_t count, double mean,
                                              double deviation) {
  std::vector<double> out(count);
  random_normals<double>(key, 0, deviation, out);
  for (double& value : out) value += mean;
  return out;
}

PLAIT_DECL bool run_checked(check_report& report, std::string const& where,
                            trial (*run)(trial_setup const&), trial_setup const& setup,
                            trial& out) {
  report.checked.push_back(where);
  return run_quietly(report, where, run, setup, out);
}

PLAIT_DECL void check_alone(check_report& report, std::string const& where,
                            checked_layer const& layer, trial_setup const& setup, trial const& got,
                            trial (*run)(trial_setup const&)) {
  check_differences(report, where, setup, got);
  check_accumulation(report, where, got, layer.rounding);
  std::size_t const before = report.failures.size();
  check_independence(report, where, setup, got, layer.output, layer.is_loss());
  bool const is_independent = report.failures.size() == before;
  check_weights(report, where, setup, got, layer.rounding);
  check_bytes(report, where, got);
  double const loss = got.ranks[0].once.loss;
  compare(report, where, {"loss", 1, 1}, {2 * loss}, {got.ranks[0].scaled_loss},
          rounding_bound({loss}, layer.rounding),
          "must be twice as large if context.loss.scale is doubled");
  // A layer that sums over all samples is checked by check_data_ranks instead, which compares two
  // data ranks with one rank.
  if (layer.sums_samples || !is_independent) return;
  check_pieces(report, where, setup, got, layer.output, run, layer.rounding);
  check_partial_group(report, where, setup, layer.output, run, layer.rounding);
}

PLAIT_DECL void check_targets(check_report& report, std::string const& of_all,
                              checked_layer const& layer, trial const& usual,
                              trial (*run)(trial_setup const&)) {
  if (layer.losses.empty()) return;
  check_uncounted(report, of_all, layer.setup, layer.losses, usual);
  trial got;
  auto setup = layer.setup;
  auto where = ext::concat({of_all, ", with rows without a target"});
  if (leave_out_targets(setup, layer.losses) && run_quietly(report, where, run, setup, got) &&
      check_uncounted(report, where, setup, layer.losses, got))
    check_alone(report, where, layer, setup, got, run);
  setup = layer.setup;
  setup.differences.clear();
  where = ext::concat({of_all, ", with labels that are not columns of their rows"});
  if (use_labels_past_rows(setup, layer.losses, layer.width) &&
      run_quietly(report, where, run, setup, got))
    check_labels_past_rows(report, where, usual, got, layer.width);
}

PLAIT_DECL void check_job(check_report& report, std::string const& where,
                          checked_layer const& layer, trial const& expected, trial const& got,
                          trial (*run)(trial_setup const&), std::string const& law) {
  compare_trials(report, where, expected, got, layer.output, law, layer.rounding);
  check_alone(report, where, layer, layer.setup, got, run);
  check_targets(report, where, layer, got, run);
}

}  // namespace plait::testing::detail
