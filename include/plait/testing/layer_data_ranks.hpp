// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/testing/layer_trial.hpp"
#include "plait/testing/report.hpp"

/// The law of layers that sum over samples: two data ranks must have the results of one rank that
/// has the samples of both ranks.
namespace plait::testing::detail {

/// Joins the rows of two batches to the rows of one batch, position by position.
template <class T>
std::vector<T> joined_rows(std::vector<T> const& one, std::vector<T> const& other,
                           std::size_t sequence) {
  std::vector<T> out;
  std::size_t const length = one.size() / sequence;  // elements of all samples at one position
  for (std::size_t begin = 0; begin < one.size(); begin += length)
    for (auto const* const from : {&one, &other})
      out.insert(out.end(), from->begin() + std::ptrdiff_t(begin),
                 from->begin() + std::ptrdiff_t(begin + length));
  return out;
}

/// Returns a setup with different samples: the samples of `of` in reversed order, scaled and
/// shifted.
trial_setup with_other_samples(trial_setup of);

/// Compares two data ranks with one rank that has the samples of both ranks. The second rank has a
/// place without a sample. `run_both`, `run_one`: the function run_trial of each job.
void check_data_ranks(check_report& report, std::string const& where, trial_setup setup,
                      compared_tensor const& output,
                      trial (*run_both)(std::vector<trial_setup> const&),
                      trial (*run_one)(trial_setup const&));

}  // namespace plait::testing::detail

#if PLAIT_HEADER_ONLY
#include "plait/testing/layer_data_ranks.ipp"
#endif
