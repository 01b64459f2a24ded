// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/testing/layer_pieces.hpp"

#include <exception>

#include "plait/core/concat.hpp"
#include "plait/testing/layer_laws.hpp"

namespace plait::testing::detail {

PLAIT_DECL double put_back(std::vector<double> const& from, trial_setup const& of,
                           batch_piece const& piece, std::vector<double>& whole) {
  double most = 0;
  std::size_t const width = whole.size() / of.rows();
  for (std::size_t i = 0; i < of.sequence * piece.places() * width; ++i) {
    std::size_t const row = i / width, sample = row % piece.places();
    if (sample >= piece.present) {
      if (!(std::abs(from[i]) <= most)) most = std::abs(from[i]);
      continue;
    }
    std::size_t const to = row / piece.places() * of.samples + piece.first + sample;
    whole[to * width + i % width] = from[i];
  }
  return most;
}

PLAIT_DECL trial_setup piece_of(trial_setup const& of, batch_piece const& piece, double absent) {
  trial_setup out = of;
  out.samples = piece.places();
  out.missing = piece.missing;
  out.first_sample = of.first_sample + piece.first;
  out.microbatch = piece.number;
  out.is_piece = true;
  out.differences.clear();
  for (std::size_t i = 0; i < of.parameters.size(); ++i)
    if (of.is_input[i]) {
      out.parameters[i] = rows_of_piece(of.parameters[i], of, piece, absent);
      out.parameters[i].resize(of.parameters[i].size());
    }
  out.tokens = rows_of_piece(of.tokens, of, piece, of.missing_token);
  out.targets = rows_of_piece(of.targets, of, piece, 0.0);
  out.weights = rows_of_piece(of.weights, of, piece, 0.0);
  out.row_weights = rows_of_piece(of.row_weights, of, piece, 0.0);
  return out;
}

PLAIT_DECL bool run_quietly(check_report& report, std::string const& where,
                            trial (*run)(trial_setup const&), trial_setup const& setup,
                            trial& out) {
  try {
    out = run(setup);
    return true;
  } catch (std::exception const& failure) {
    report.failures.push_back(ext::concat({where, ": ", failure.what()}));
    return false;
  }
}

PLAIT_DECL void check_pieces(check_report& report, std::string const& where,
                             trial_setup const& setup, trial const& got,
                             compared_tensor const& output, trial (*run)(trial_setup const&),
                             double rounding) {
  std::size_t const first = setup.group, rest = setup.samples - first;
  batch_piece const pieces[]{
      {setup.samples, 0, first, 2}, {first, rest, first, 1}, {0, first, 0, 0}};
  bool const is_loss = output.name == "loss";
  double loss = 0;
  std::vector<double> outputs(got.ranks[0].once.output.size());
  tensors gradients;
  for (auto const& entry : got.entries) gradients.emplace_back(entry.info.count());
  std::vector<double> absent(got.entries.size());
  for (auto const& piece : pieces) {
    trial part;
    if (!run_quietly(report,
                     ext::concat({where, ", with ", piece.present, " samples and ", piece.missing,
                                  " places without one"}),
                     run, piece_of(setup, piece, 1.5), part))
      return;
    auto const& once = part.ranks[0].once;
    loss += once.loss;
    if (!is_loss) put_back(once.output, setup, piece, outputs);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      bool ignored = false;
      auto const of_part = assemble(part, &rank_record::once, i, ignored);
      if (setup.is_input[i]) {
        double const most = put_back(of_part, setup, piece, gradients[i]);
        if (!(most <= absent[i])) absent[i] = most;
      } else {
        for (std::size_t k = 0; k < of_part.size(); ++k) gradients[i][k] += of_part[k];
      }
    }
  }
  auto const batches = ext::concat({"of ", first, " and of ", rest, " samples"});
  auto const same = ext::concat(
      {"must be the same when the samples come in batches ", batches,
       ": a body may use numbers of the global batch, such as l.context.first_sample or at.sample, "
       "but not the number of a local row, l.context.batch or l.context.microbatch"});
  auto const sum =
      ext::concat({"must be the sum over batches ", batches, " and a batch without samples"});
  if (!is_loss)
    compare(report, where, output, outputs, got.ranks[0].once.output,
            rounding_bound(outputs, rounding), same);
  compare(report, where, {is_loss ? "loss" : "added loss", 1, 1}, {loss}, {got.ranks[0].once.loss},
          rounding_bound({loss}, rounding), sum);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (got.entries[i].is_frozen) continue;
    bool ignored = false;
    auto const what = tensor_of(got, i);
    compare(report, where, what, gradients[i], assemble(got, &rank_record::once, i, ignored),
            rounding_bound(gradients[i], rounding), setup.is_input[i] ? same : sum);
    if (setup.is_input[i])
      compare(report, where, {what.name, 1, 1}, {0}, {absent[i]}, 0, missing_law);
  }
}

PLAIT_DECL void check_partial_group(check_report& report, std::string const& of_all,
                                    trial_setup const& setup, compared_tensor const& output,
                                    trial (*run)(trial_setup const&), double rounding) {
  if (setup.group == 1) return;
  batch_piece const piece{0, setup.samples - 1, 1, 0};
  auto const where = ext::concat({of_all, ", with a group that lacks a sample"});
  auto with_one = piece_of(setup, piece, 1.5);
  with_one.differences = setup.differences;
  trial one, other;
  if (!run_quietly(report, where, run, with_one, one) ||
      !run_quietly(report, where, run, piece_of(setup, piece, -0.75), other))
    return;
  std::size_t const before = report.failures.size();
  auto const* const law =
      "must not depend on the contents of places without a sample (these are the last "
      "l.context.missing of the l.context.batch places): leave them out of the values that the "
      "samples of a group share";
  std::vector<double> outputs(one.ranks[0].once.output.size()), others(outputs.size());
  put_back(one.ranks[0].once.output, setup, piece, outputs);
  put_back(other.ranks[0].once.output, setup, piece, others);
  compare(report, where, output, outputs, others, rounding_bound(outputs, rounding), law);
  for (std::size_t i = 0; i < one.entries.size(); ++i) {
    if (one.entries[i].is_frozen) continue;
    bool ignored = false;
    auto const what = tensor_of(one, i);
    auto gradient = assemble(one, &rank_record::once, i, ignored);
    auto of_other = assemble(other, &rank_record::once, i, ignored);
    if (setup.is_input[i]) {
      std::vector<double> here(gradient.size()), there(gradient.size());
      double const absent = put_back(gradient, setup, piece, here);
      compare(report, where, {what.name, 1, 1}, {0}, {absent}, 0, missing_law);
      put_back(of_other, setup, piece, there);
      gradient = here, of_other = there;
    }
    compare(report, where, what, gradient, of_other, rounding_bound(gradient, rounding), law);
  }
  if (report.failures.size() == before) check_differences(report, where, with_one, one);
}

}  // namespace plait::testing::detail
