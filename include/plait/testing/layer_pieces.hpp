// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/testing/layer_trial.hpp"
#include "plait/testing/report.hpp"

/// Laws that compare a layer's results for the same samples in different batches: in one batch, in
/// the smaller batches of microbatches and data ranks, and in batches in which some places have no
/// sample.
namespace plait::testing::detail {

/// Consecutive samples of a batch that form a separate batch, followed by places without a sample.
struct batch_piece {
  std::size_t first = 0, present = 0, missing = 0;
  int number = 0;  ///< the number that the piece has as a microbatch

  [[nodiscard]] std::size_t places() const { return present + missing; }
};

/// Returns the rows of a piece, with the number `absent` in places without a sample.
template <class T>
std::vector<T> rows_of_piece(std::vector<T> const& all, trial_setup const& of,
                             batch_piece const& piece, T absent) {
  std::vector<T> out;
  std::size_t const width = all.size() / of.rows();
  for (std::size_t position = 0; position < of.sequence; ++position) {
    auto const from = all.begin() + std::ptrdiff_t((position * of.samples + piece.first) * width);
    out.insert(out.end(), from, from + std::ptrdiff_t(piece.present * width));
    out.insert(out.end(), piece.missing * width, absent);
  }
  return out;
}

/// Copies the rows of a piece to the places that its samples have in the whole batch. Returns the
/// largest number in places without a sample; NaN counts as larger than all numbers.
double put_back(std::vector<double> const& from, trial_setup const& of, batch_piece const& piece,
                std::vector<double>& whole);

/// Returns the setup of a piece. A place without a sample has the targets that `batches` sets for
/// such places, and inputs equal to `absent`.
trial_setup piece_of(trial_setup const& of, batch_piece const& piece, double absent);

/// Runs a job. An exception is reported as a failure; the report does not list the run.
bool run_quietly(check_report& report, std::string const& where, trial (*run)(trial_setup const&),
                 trial_setup const& setup, trial& out);

inline constexpr char const* missing_law =
    "must be 0 in a place without a sample (these are the last l.context.missing of the "
    "l.context.batch places): in a loss, multiply by l.dy.at(row); in other layers, leave these "
    "rows out";

/// Compares `got`, the results of all samples in one batch, with the results of the samples in
/// batches of different sizes and in a different order. One batch has places without a sample, and
/// one has no sample at all.
void check_pieces(check_report& report, std::string const& where, trial_setup const& setup,
                  trial const& got, compared_tensor const& output, trial (*run)(trial_setup const&),
                  double rounding);

/// For a layer that mixes the samples of a group: runs a group in which one place has no sample.
/// The numbers in this place must not change any result, and the gradients of the other samples
/// must be right.
void check_partial_group(check_report& report, std::string const& of_all, trial_setup const& setup,
                         compared_tensor const& output, trial (*run)(trial_setup const&),
                         double rounding);

}  // namespace plait::testing::detail

#if PLAIT_HEADER_ONLY
#include "plait/testing/layer_pieces.ipp"
#endif
