// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/testing/layer_data_ranks.hpp"

#include <exception>
#include <utility>

#include "plait/core/concat.hpp"
#include "plait/testing/layer_laws.hpp"
#include "plait/testing/layer_pieces.hpp"

namespace plait::testing::detail {

PLAIT_DECL trial_setup with_other_samples(trial_setup of) {
  for (std::size_t i = 0; i < of.parameters.size(); ++i)
    if (of.is_input[i]) {
      auto& values = of.parameters[i];
      values.assign(values.rbegin(), values.rend());
      for (double& value : values) value = 2 * value + 0.5;
    }
  of.weights.assign(of.weights.rbegin(), of.weights.rend());
  return of;
}

PLAIT_DECL void check_data_ranks(check_report& report, std::string const& where, trial_setup setup,
                                 compared_tensor const& output,
                                 trial (*run_both)(std::vector<trial_setup> const&),
                                 trial (*run_one)(trial_setup const&)) {
  std::size_t const sequence = setup.sequence, samples = setup.samples;
  auto whole = with_other_samples(setup);
  whole.first_sample = samples;
  setup.all_samples = whole.all_samples = 2 * samples - 1;
  batch_piece const all{0, samples, 0, 0}, last_missing{0, samples - 1, 1, 0};
  setup = piece_of(setup, all, 0);
  auto const other = piece_of(whole, last_missing, 1.5),
             joined_with = piece_of(whole, last_missing, -0.75);
  trial_setup joined = setup;
  joined.samples = joined.group = 2 * samples;
  joined.missing = 1;
  for (std::size_t i = 0; i < setup.is_input.size(); ++i)
    if (setup.is_input[i])
      joined.parameters[i] = joined_rows(setup.parameters[i], joined_with.parameters[i], sequence);
  joined.weights = joined_rows(setup.weights, other.weights, sequence);
  joined.tokens = joined_rows(setup.tokens, other.tokens, sequence);
  joined.targets = joined_rows(setup.targets, other.targets, sequence);
  joined.row_weights = joined_rows(setup.row_weights, other.row_weights, sequence);

  trial both, one;
  report.checked.push_back(where);
  try {
    both = run_both({setup, other});
    one = run_one(joined);
  } catch (std::exception const& failure) {
    report.failures.push_back(ext::concat({where, ": ", failure.what()}));
    return;
  }
  auto const* const law = "must equal the result of one rank that has the samples of both ranks";
  // The piece contains all samples, but not the last place, which has no sample.
  batch_piece const present{0, 2 * samples - 1, 1, 0};
  auto const of_samples = [&](std::vector<double> const& rows, double* absent) {
    std::vector<double> out(rows.size());
    *absent = put_back(rows, joined, present, out);
    return out;
  };
  double absent = 0;
  if (output.name == "loss") {
    double const loss = one.ranks[0].once.loss;
    compare(report, where, output, {loss}, {both.ranks[0].once.loss + both.ranks[1].once.loss},
            rounding_bound({loss}), law);
  } else {
    auto const expected = of_samples(one.ranks[0].once.output, &absent);
    auto const got = of_samples(
        joined_rows(both.ranks[0].once.output, both.ranks[1].once.output, sequence), &absent);
    compare(report, where, {output.name, output.columns, got.size()}, expected, got,
            rounding_bound(expected), law);
  }
  for (std::size_t i = 0; i < both.parameters.size(); ++i) {
    if (both.entries[i].is_frozen) continue;
    bool ignored = false;
    auto const of_rank = [&](trial const& of, std::size_t rank) {
      trial alone{{of.ranks[rank]}, of.parameters, of.entries};
      return assemble(alone, &rank_record::once, i, ignored);
    };
    auto right = of_rank(one, 0);
    auto const sums = of_rank(both, 0);  // the gradients, summed over both ranks
    if (setup.is_input[i]) {
      right = of_samples(right, &absent);
      compare(report, where, {tensor_of(both, i).name, 1, 1}, {0}, {absent}, 0, missing_law);
      std::vector<double> folded(sums.size(), 0.0);
      std::size_t const length = sums.size() / sequence;
      for (std::size_t k = 0; k < right.size(); ++k)
        folded[k / (2 * length) * length + k % length] += right[k];
      right = std::move(folded);
    }
    compare(report, where, tensor_of(both, i), right, sums, rounding_bound(right), law);
  }
}

}  // namespace plait::testing::detail
