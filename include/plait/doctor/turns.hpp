// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "plait/core/clock.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/doctor/measured_job.hpp"

namespace plait::detail::doctor {

/// The number and the length of the turns in which work is measured. A turn repeats the work as
/// often as fits into `seconds`, at least once.
struct turn_limits {
  int turns = 5;
  /// Turns that differ by more than 3 % from their median are repeated, up to this number.
  int most_turns = 15;
  double seconds = 2e-3;
  double repeat_until = 1e300;  ///< the time of seconds_now() from which turns are not repeated
};

/// Returns the middle value, or the mean of the two middle values; 0 for no values.
[[nodiscard]] double median_of(std::vector<double> values);

/// Returns true if the middle half of the values is within 3 % of their median.
[[nodiscard]] bool are_close(std::vector<double> values);

/// Returns median, 99th percentile and lost time of a rank's turns of equal work.
[[nodiscard]] ext::measured_turns turns_of(std::vector<double> seconds);

[[nodiscard]] inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Returns the seconds of `count` calls of work() on an idle device, and waits for their end.
template <class Device, class Work>
double seconds_of_turn(Device& device, int count, Work& work) {
  device.synchronize();
  double const begin = seconds_now();
  for (int i = 0; i < count; ++i) work();
  device.synchronize();
  return seconds_now() - begin;
}

/// Returns the number of calls of work() in a turn. Calls it twice: the first call may allocate.
template <class Device, class Work>
int calls_in_turn(Device& device, turn_limits const& limits, Work& work) {
  (void)seconds_of_turn(device, 1, work);
  double const once = std::max(1e-9, seconds_of_turn(device, 1, work));
  return std::clamp(static_cast<int>(std::min(1e6, limits.seconds / once)), 1, 1'000'000);
}

/// Returns the median seconds of a call of work().
template <class Device, class Work>
double seconds_of_work(Device& device, turn_limits const& limits, Work work) {
  int const count = calls_in_turn(device, limits, work);
  std::vector<double> turns;
  while (int(turns.size()) < limits.turns ||
         (int(turns.size()) < limits.most_turns && seconds_now() < limits.repeat_until &&
          !are_close(turns)))
    turns.push_back(seconds_of_turn(device, count, work) / count);
  return median_of(std::move(turns));
}

}  // namespace plait::detail::doctor

#if PLAIT_HEADER_ONLY
#include "plait/doctor/turns.ipp"
#endif
