// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/process/watchdog.hpp"

#include "plait/backend/process/flight_ring.hpp"
#include "plait/core/caught_signal.hpp"
#include "plait/core/concat.hpp"

namespace plait::detail {

PLAIT_DECL watchdog::~watchdog() {
  {
    std::scoped_lock const lock{mutex_};
    ends_ = true;
  }
  wakes_.notify_one();
  thread_.join();
}

PLAIT_DECL void watchdog::set_timeout(std::chrono::milliseconds timeout) {
  timeout_.store(timeout, std::memory_order_relaxed);
  std::scoped_lock const lock{mutex_};
  for (auto& one : watched_) one.patience.forget();
}

PLAIT_DECL std::int64_t watchdog::now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

PLAIT_DECL void watchdog::watch() {
  std::unique_lock lock{mutex_};
  while (!wakes_.wait_for(lock, std::chrono::milliseconds{50}, [this] { return ends_; }))
    for (auto& one : watched_) look_at(one);
}

PLAIT_DECL void watchdog::look_at(watched_thread& one) {
  auto until = one.deadline.load(std::memory_order_acquire);
  if (until <= none) return;
  int const signal = one.patience.look(static_cast<std::uint64_t>(until));
  if (signal == 0 && now() < until) return;
  if (!one.deadline.compare_exchange_strong(until, taken, std::memory_order_acq_rel)) return;
  auto const when =
      signal == 0
          ? ""
          : concat({one.patience.waited().count(), " ms after ", caught_signal::name(signal)});
  auto const text = one.says(one.said, when) + '\n';
  if (auto* const record = flight_ring::of_process().load())
    record->finish(flight_state::cut_off, text.substr(0, text.size() - 1));
  (void)!::write(STDERR_FILENO, text.data(), text.size());
  ::_exit(signal == 0 ? exit_code : 128 + signal);
}

}  // namespace plait::detail
