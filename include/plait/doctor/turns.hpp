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
///
/// `turns` turns are measured. If they are not close (see are_close()), for example because another
/// program has run, more turns are added until they are, but at most up to `most_turns` turns in
/// all and for at most `more_seconds`.
struct turn_limits {
  int turns = 5;
  int most_turns = 15;
  double seconds = 2e-3;
  double more_seconds = 1e300;  ///< for the turns after the first `turns`
};

/// Returns the middle value, or the mean of the two middle values; 0 for no values.
[[nodiscard]] double median_of(std::vector<double> values);

/// Returns true if the middle half of the values spreads over at most 6 % of their median. The
/// quarters with the smallest and the greatest values do not matter: of the five values 1, 1.02,
/// 0.98, 1.01 and 5, it looks at 1, 1.01 and 1.02. True for fewer than two values.
[[nodiscard]] bool are_close(std::vector<double> values);

/// Returns the median, the 99th percentile and the lost part of the seconds of a rank's turns of
/// equal work.
[[nodiscard]] ext::measured_turns turns_of(std::vector<double> seconds);

/// Returns the time of a clock that is never set, in seconds.
[[nodiscard]] inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Waits until the device is idle, calls work() `count` times, and returns the seconds until the
/// device has ended this work.
template <class Device, class Work>
double seconds_of_turn(Device& device, int count, Work& work) {
  device.synchronize();
  double const begin = seconds_now();
  for (int i = 0; i < count; ++i) work();
  device.synchronize();
  return seconds_now() - begin;
}

/// Returns the number of calls of work() in a turn, from 1 to 10^6. Calls work() once, because the
/// first call may allocate memory, and computes the number from the fastest of up to three further
/// calls. A call that is longer than a turn is the last.
template <class Device, class Work>
int calls_in_turn(Device& device, turn_limits const& limits, Work& work) {
  (void)seconds_of_turn(device, 1, work);
  double once = 1e9;
  for (int i = 0; i < 3 && (i == 0 || once < limits.seconds); ++i)
    once = std::min(once, seconds_of_turn(device, 1, work));
  return std::clamp(static_cast<int>(std::min(1e6, limits.seconds / std::max(once, 1e-9))), 1,
                    1'000'000);
}

/// Returns the median seconds of a call of work(0), of work(1), and so on up to work(count - 1).
///
/// All of them have one turn, then all have another one, and so on. For example, 100 products have
/// turns of 1 ms, and another program runs for 100 ms. It slows down one of the turns of each
/// product, which does not change the median of five turns. If each product had its five turns one
/// after the other, it would slow down all turns of 20 products.
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
  double until = 1e300;
  for (int round = 0; !is_complete; ++round) {
    is_complete = true;
    if (round == limits.turns) until = seconds_now() + limits.more_seconds;
    for (std::size_t i = 0; i < count; ++i) {
      auto& own = turns[i];
      int const done = static_cast<int>(own.size());
      if (done >= limits.turns &&
          (done >= limits.most_turns || are_close(own) || seconds_now() >= until))
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
