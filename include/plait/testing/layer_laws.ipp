// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/testing/layer_laws.hpp"

#include "plait/core/concat.hpp"
#include "plait/testing/layer_probe.hpp"

namespace plait::testing::detail {

PLAIT_DECL std::size_t input_number(std::string const& parameter) {
  for (std::size_t i = 0; i < probe_names.size(); ++i)
    if (parameter.find(ext::concat({probe_names[i].text(), ".values"})) != std::string::npos)
      return i + 1;
  return 0;
}

PLAIT_DECL std::string tensor_name(trial const& of, std::string const& full) {
  if (std::size_t const input = input_number(full); input > 0) {
    auto const inputs = std::ranges::count_if(
        of.parameters, [](auto const& one) { return input_number(one.name) > 0; });
    if (inputs == 1) return "gradient of the input";
    return ext::concat({"gradient of input ", input, " of ", inputs});
  }
  std::string const mark = "layer.";
  return ext::concat({"gradient of ", full.substr(full.find(mark) + mark.size())});
}

PLAIT_DECL compared_tensor tensor_of(trial const& of, std::size_t parameter) {
  auto const& info = of.entries[parameter].info;
  return {tensor_name(of, of.parameters[parameter].name), info.columns, info.count()};
}

PLAIT_DECL void compare_trials(check_report& report, std::string const& where,
                               trial const& expected, trial const& got,
                               compared_tensor const& output, std::string const& law,
                               double rounding) {
  auto const& first = got.ranks[0].once.output;
  compare(report, where, output, expected.ranks[0].once.output, first,
          rounding_bound(first, rounding), law);
  if (double const loss = expected.ranks[0].once.loss; output.name != "loss")
    for (auto const& rank : got.ranks)
      compare(report, where, {"added loss", 1, 1}, {loss}, {rank.once.loss},
              rounding_bound({loss}, rounding), law);
  for (std::size_t r = 1; r < got.ranks.size(); ++r)
    compare(report, where, output, first, got.ranks[r].once.output, 0,
            ext::concat({"rank 0 (expected) and rank ", r, " (got) must have the same bits"}));
  for (std::size_t i = 0; i < got.parameters.size(); ++i) {
    if (got.entries[i].is_frozen) continue;  // a frozen parameter has no gradient
    bool disagree = false, ignored = false;
    auto const right = assemble(expected, &rank_record::once, i, ignored);
    auto const mine = assemble(got, &rank_record::once, i, disagree);
    compare(report, where, tensor_of(got, i), right, mine, rounding_bound(right, rounding), law);
    if (disagree)
      report.failures.push_back(
          ext::concat({where, ": ", tensor_of(got, i).name,
                       ": ranks that keep the same elements have different bits"}));
  }
}

PLAIT_DECL void check_accumulation(check_report& report, std::string const& where, trial const& got,
                                   double rounding) {
  for (std::size_t i = 0; i < got.parameters.size(); ++i) {
    if (got.entries[i].is_frozen) continue;  // a frozen parameter has no gradient
    bool ignored = false;
    auto expected = assemble(got, &rank_record::once, i, ignored);
    for (double& value : expected) value *= 2;
    compare(report, where, tensor_of(got, i), expected,
            assemble(got, &rank_record::twice, i, ignored), rounding_bound(expected, rounding),
            "two backwards must add up to twice the gradient (dp += ..., not dp = ...)");
  }
}

PLAIT_DECL void check_differences(check_report& report, std::string const& where,
                                  trial_setup const& setup, trial const& got) {
  for (std::size_t i = 0; i < got.parameters.size(); ++i) {
    if (!got.entries[i].has_gradient()) continue;
    bool ignored = false;
    auto const gradient = assemble(got, &rank_record::once, i, ignored);
    auto expected = gradient;
    std::size_t tried = 0;
    for (std::size_t k = 0; k < setup.differences.size(); ++k)
      if (setup.differences[k].parameter == i) {
        expected[setup.differences[k].element] = got.ranks[0].differences[k];
        ++tried;
      }
    // The bound for the error of a finite difference: if the third derivative and the output are
    // about 1, the neglected terms and the rounding of the outputs contribute 2e-11 each.
    compare(report, where, tensor_of(got, i), expected, gradient,
            1e-6 * std::max(1.0, largest(gradient)),
            "must be the central finite difference of the outputs (step 1e-5)", tried);
  }
}

PLAIT_DECL void check_independence(check_report& report, std::string const& where,
                                   trial_setup const& setup, trial const& got,
                                   compared_tensor const& output, bool is_loss) {
  // Values of the changed sample's own group are not compared, because they may change.
  auto const others = [&](std::vector<double> const& now, std::vector<double> expected,
                          std::size_t columns) {
    for (std::size_t i = 0; i < expected.size(); ++i)
      if (i / columns % setup.samples / setup.group == setup.samples / 2 / setup.group)
        expected[i] = now[i];
    return expected;
  };
  std::string const law =
      ext::concat({(setup.group == 1 ? "must not change when another sample of the batch "
                                       "changes (sample "
                                     : "must not change when a sample of another group "
                                       "changes (sample "),
                   setup.samples / 2, "; row = position * ", setup.samples, " + sample)"});
  auto const& first = got.ranks[0];
  if (!is_loss)
    compare(report, where, output, others(first.changed.output, first.once.output, output.columns),
            first.changed.output, 0, law);
  for (std::size_t i = 0; i < got.parameters.size(); ++i) {
    if (input_number(got.parameters[i].name) == 0) continue;
    bool ignored = false;
    auto const now = assemble(got, &rank_record::changed, i, ignored);
    auto const what = tensor_of(got, i);
    compare(report, where, what,
            others(now, assemble(got, &rank_record::once, i, ignored), what.columns), now, 0, law);
  }
}

PLAIT_DECL void check_weights(check_report& report, std::string const& where,
                              trial_setup const& setup, trial const& got, double rounding) {
  if (setup.row_weights.empty()) return;
  auto const& first = got.ranks[0];
  compare(report, where, {"loss", 1, 1}, first.unweighted.output, {first.unit_loss},
          rounding_bound(first.unweighted.output, rounding),
          "must be the same with weights of 1 as without weights");
  for (std::size_t i = 0; i < got.parameters.size(); ++i) {
    if (input_number(got.parameters[i].name) == 0) continue;
    bool ignored = false;
    auto expected = assemble(got, &rank_record::unweighted, i, ignored);
    auto const what = tensor_of(got, i);
    for (std::size_t e = 0; e < expected.size(); ++e)
      expected[e] *= setup.row_weights[e / what.columns];
    compare(
        report, where, what, expected, assemble(got, &rank_record::once, i, ignored),
        rounding_bound(expected, rounding),
        "must equal the gradient without weights times the weight of its row: use l.dy.at(row)");
  }
}

PLAIT_DECL void check_bytes(check_report& report, std::string const& where, trial const& got) {
  for (std::size_t r = 0; r < got.ranks.size(); ++r)
    for (auto const& moved : got.ranks[r].moved)
      if (moved.planned != moved.counted)
        report.failures.push_back(
            ext::concat({where, ": rank ", r, " moved ", moved.counted, " bytes over the ",
                         moved.group, " group, but the plan lists ", moved.planned}));
}

}  // namespace plait::testing::detail
