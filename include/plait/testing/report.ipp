// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/testing/report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "plait/core/concat.hpp"

namespace plait::testing {

PLAIT_DECL void check_report::add(check_report const& other) {
  failures.insert(failures.end(), other.failures.begin(), other.failures.end());
  checked.insert(checked.end(), other.checked.begin(), other.checked.end());
}

PLAIT_DECL std::string check_report::text() const {
  std::string all;
  for (auto const& failure : failures) all += ext::concat({failure, "\n"});
  return all;
}

PLAIT_DECL std::string compared_tensor::element(std::size_t index) const {
  if (columns == count) return ext::concat({"[", index, "]"});
  return ext::concat({"[", index / columns, ", ", index % columns, "]"});
}

}  // namespace plait::testing

namespace plait::testing::detail {

PLAIT_DECL std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", value);
  return text;
}

PLAIT_DECL double largest(std::vector<double> const& values) {
  double most = 0;
  for (double const value : values)
    if (std::isfinite(value))
      // Only finite values count, because an infinite bound would accept every difference.
      most = std::max(most, std::abs(value));
  return most;
}

PLAIT_DECL void compare(check_report& report, std::string const& where, compared_tensor const& what,
                        std::vector<double> const& expected, std::vector<double> const& got,
                        double bound, std::string const& law, std::size_t compared) {
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

}  // namespace plait::testing::detail
