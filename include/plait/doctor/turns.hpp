// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
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

/// Returns the number of calls of work() in a turn, from the fastest of three calls after a first
/// call, which may allocate.
template <class Device, class Work>
int calls_in_turn(Device& device, turn_limits const& limits, Work& work) {
  (void)seconds_of_turn(device, 1, work);
  double once = 1e9;
  for (int i = 0; i < 3; ++i) once = std::min(once, seconds_of_turn(device, 1, work));
  return std::clamp(static_cast<int>(std::min(1e6, limits.seconds / std::max(once, 1e-9))), 1,
                    1'000'000);
}

/// Returns the median seconds of work(0), work(1), up to work(count - 1). All works have one turn,
/// then all have another one, and so on, so that a disturbance of a tenth of a second slows down
/// one turn of many works and not all turns of one.
template <class Device, class Work>
std::vector<double> seconds_of_works(Device& device, turn_limits const& limits, std::size_t count,
                                     Work work) {
  std::vector<int> calls;
  for (std::size_t i = 0; i < count; ++i) {
    auto one = [&] { work(i); };
    calls.push_back(calls_in_turn(device, limits, one));
  }
  std::vector<std::vector<double>> turns(count);
  bool is_complete = count == 0;
  while (!is_complete) {
    is_complete = true;
    for (std::size_t i = 0; i < count; ++i) {
      auto& own = turns[i];
      int const done = static_cast<int>(own.size());
      if (done >= limits.turns &&
          (done >= limits.most_turns || are_close(own) || seconds_now() >= limits.repeat_until))
        continue;
      auto one = [&] { work(i); };
      own.push_back(seconds_of_turn(device, calls[i], one) / calls[i]);
      is_complete = false;
    }
  }
  std::vector<double> out;
  for (auto& own : turns) out.push_back(median_of(std::move(own)));
  return out;
}

}  // namespace plait::detail::doctor

#if PLAIT_HEADER_ONLY
#include "plait/doctor/turns.ipp"
#endif
