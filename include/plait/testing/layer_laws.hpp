// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/testing/layer_trial.hpp"
#include "plait/testing/report.hpp"

/// Laws about the results of trials.
namespace plait::testing::detail {

/// If a parameter belongs to a probe, a layer that provides one input of the layer under test,
/// returns the number of this input, counted from 1; otherwise returns 0.
std::size_t input_number(std::string const& parameter);

/// Returns the name of a gradient for messages. If the layer has several inputs, the name says
/// which input.
std::string tensor_name(trial const& of, std::string const& full);

compared_tensor tensor_of(trial const& of, std::size_t parameter);

/// The bound for differences in double, relative to the largest element: two sums of up to some
/// thousand terms, added in different orders, differ by less.
inline constexpr double double_rounding = 1e-10;

inline double rounding_bound(std::vector<double> const& expected,
                             double rounding = double_rounding) {
  return rounding * std::max(1.0, largest(expected));
}

/// Compares the outputs and all gradients of two trials, and checks that ranks have equal copies.
void compare_trials(check_report& report, std::string const& where, trial const& expected,
                    trial const& got, compared_tensor const& output, std::string const& law,
                    double rounding = double_rounding);

void check_accumulation(check_report& report, std::string const& where, trial const& got,
                        double rounding = double_rounding);

void check_differences(check_report& report, std::string const& where, trial_setup const& setup,
                       trial const& got);

void check_independence(check_report& report, std::string const& where, trial_setup const& setup,
                        trial const& got, compared_tensor const& output, bool is_loss);

/// Checks a loss that takes weights of rows.
void check_weights(check_report& report, std::string const& where, trial_setup const& setup,
                   trial const& got, double rounding = double_rounding);

void check_bytes(check_report& report, std::string const& where, trial const& got);

}  // namespace plait::testing::detail

#if PLAIT_HEADER_ONLY
#include "plait/testing/layer_laws.ipp"
#endif
