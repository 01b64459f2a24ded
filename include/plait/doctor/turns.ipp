// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/doctor/turns.hpp"

#include <algorithm>
#include <numeric>

namespace plait::detail::doctor {

PLAIT_DECL double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  std::size_t const middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

PLAIT_DECL bool are_close(std::vector<double> values) {
  if (values.size() < 2) return true;
  std::sort(values.begin(), values.end());
  std::size_t const quarter = values.size() / 4;
  double const median = median_of(values);
  return values[values.size() - 1 - quarter] - values[quarter] <= 0.06 * median;
}

PLAIT_DECL ext::measured_turns turns_of(std::vector<double> seconds) {
  ext::measured_turns out;
  if (seconds.empty()) return out;
  std::sort(seconds.begin(), seconds.end());
  out.median_seconds = median_of(seconds);
  std::size_t const last = (seconds.size() * 99 + 99) / 100 - 1;
  out.longest_seconds = seconds[last];
  double total = 0, beyond = 0;
  for (double const one : seconds) {
    total += one;
    beyond += std::max(0.0, one - out.median_seconds);
  }
  out.lost = total > 0 ? beyond / total : 0;
  return out;
}

}  // namespace plait::detail::doctor
