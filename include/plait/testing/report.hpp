// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include "plait/core/concat.hpp"

namespace plait::testing {

/// The report of a check: one sentence for each law that does not hold; empty if all hold.
struct check_report {
  std::vector<std::string> failures;
  /// What was run, as in "form column on 2 tensor ranks".
  std::vector<std::string> checked;

  [[nodiscard]] bool passed() const { return failures.empty(); }

  /// Adds another report of the same check.
  void add(check_report const& other) {
    failures.insert(failures.end(), other.failures.begin(), other.failures.end());
    checked.insert(checked.end(), other.checked.begin(), other.checked.end());
  }

  /// The failures, one to a line.
  [[nodiscard]] std::string text() const {
    std::string all;
    for (auto const& failure : failures) all += ext::concat({failure, "\n"});
    return all;
  }
};

/// The shape of something that is compared element by element.
struct compared_tensor {
  std::string name;
  std::size_t columns = 1;  ///< 1 row of them if it is a vector
  std::size_t count = 0;

  [[nodiscard]] std::string element(std::size_t index) const {
    if (columns == count) return ext::concat({"[", index, "]"});
    return ext::concat({"[", index / columns, ", ", index % columns, "]"});
  }
};

namespace detail {

inline std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", value);
  return text;
}

inline double largest(std::vector<double> const& values) {
  double most = 0;
  for (double const value : values)
    if (std::isfinite(value))
      most = std::max(most, std::abs(value));  // an infinite bound holds for all
  return most;
}

/// Adds a failure if got and expected differ by more than `bound` anywhere; NaN always differs.
/// `compared`: how many elements are, if not all.
inline void compare(check_report& report, std::string const& where, compared_tensor const& what,
                    std::vector<double> const& expected, std::vector<double> const& got,
                    double bound, std::string const& law, std::size_t compared = 0) {
  if (expected.size() != got.size()) {
    report.failures.push_back(ext::concat({where, ": ", what.name, ": ", law, ": expected ",
                                           expected.size(), " elements, got ", got.size()}));
    return;
  }
  std::size_t first = 0, wrong = 0;
  for (std::size_t i = got.size(); i-- > 0;)
    if (!(std::abs(got[i] - expected[i]) <= bound)) first = i, ++wrong;
  if (wrong == 0) return;
  report.failures.push_back(
      ext::concat({where, ": ", what.name, what.element(first), ": ", law, ": expected ",
                   number_text(expected[first]), ", got ", number_text(got[first]), " (", wrong,
                   " of ", compared == 0 ? got.size() : compared,
                   (compared == 0 ? " elements are wrong)" : " that were tried are wrong)")}));
}

}  // namespace detail

}  // namespace plait::testing
