// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plait/core/header_only.hpp"

namespace plait::testing {

/// The report of a check: one sentence for each violated law; empty if all laws hold.
struct check_report {
  std::vector<std::string> failures;
  /// The runs that were made, such as "form column on 2 tensor ranks".
  std::vector<std::string> checked;

  [[nodiscard]] bool passed() const { return failures.empty(); }

  /// Adds another report of the same check.
  void add(check_report const& other);

  /// Returns the failures, one on each line.
  [[nodiscard]] std::string text() const;
};

/// The shape of a tensor that is compared element by element.
struct compared_tensor {
  std::string name;
  std::size_t columns = 1;  ///< number of columns; for a vector, its length
  std::size_t count = 0;

  [[nodiscard]] std::string element(std::size_t index) const;
};

namespace detail {

std::string number_text(double value);

double largest(std::vector<double> const& values);

/// Adds a failure if `got` and `expected` differ by more than `bound` in any element; NaN always
/// differs. `compared`: the number of elements that are compared; 0: all.
void compare(check_report& report, std::string const& where, compared_tensor const& what,
             std::vector<double> const& expected, std::vector<double> const& got, double bound,
             std::string const& law, std::size_t compared = 0);

}  // namespace detail

}  // namespace plait::testing

#if PLAIT_HEADER_ONLY
#include "plait/testing/report.ipp"
#endif
