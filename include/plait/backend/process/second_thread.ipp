// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/process/second_thread.hpp"

#include <sched.h>

#include <algorithm>

namespace plait::detail {

PLAIT_DECL void second_thread::hand_over(handed_call const& one) {
  std::unique_lock lock{mutex_};
  wait(lock, [this] { return handed_ - carried_ < most; });
  throw_kept();
  auto& slot = ring_[handed_++ % most];
  slot = one;
  if (one.call.work != nullptr) {
    slot.work = *one.call.work;
    slot.call.work = &slot.work;
  }
  lock.unlock();
  calls_.notify_one();
}

PLAIT_DECL std::uint64_t second_thread::handed() {
  std::scoped_lock const lock{mutex_};
  throw_kept();
  return handed_;
}

PLAIT_DECL void second_thread::wait_for(std::uint64_t count) {
  std::unique_lock lock{mutex_};
  wait(lock, [&] { return carried_ >= count; });
  throw_kept();
}

PLAIT_DECL void second_thread::drain() {
  std::unique_lock lock{mutex_};
  wait(lock, [this] { return carried_ == handed_; });
  throw_kept();
}

PLAIT_DECL void second_thread::require_sound() {
  if (!has_failed_.load(std::memory_order_acquire)) return;
  std::scoped_lock const lock{mutex_};
  throw_kept();
}

PLAIT_DECL void second_thread::rethrow_earlier(bool is_due) {
  std::unique_lock lock{mutex_};
  if (is_due) rests_.wait_for(lock, std::chrono::seconds{1}, [this] { return error_ != nullptr; });
  throw_kept();
}

PLAIT_DECL void second_thread::give_up() noexcept {
  {
    std::scoped_lock const lock{mutex_};
    gives_up_ = true;
  }
  give_up_();
}

PLAIT_DECL bool second_thread::rest() noexcept {
  std::unique_lock lock{mutex_};
  auto const rests = [this] { return carried_ == handed_; };
  if (std::uncaught_exceptions() > exceptions_ && !gives_up_ &&
      !rests_.wait_for(lock, a_moment, rests)) {
    lock.unlock();
    give_up();
    lock.lock();
  }
  wait(lock, rests);
  return !is_left_;
}

PLAIT_DECL void second_thread::end() noexcept {
  if (!thread_.joinable()) return;
  {
    std::scoped_lock const lock{mutex_};
    ends_ = true;
  }
  calls_.notify_one();
  thread_.join();
}

PLAIT_DECL void second_thread::pause(int looks) {
  if (waits_.load(std::memory_order_relaxed)) {
    ::sched_yield();
    return;
  }
  std::unique_lock lock{mutex_};
  pauses_.wait_for(lock, std::min(longest_pause, shortest_pause * (1 << std::min(looks, 8))),
                   [this] { return waits_.load(std::memory_order_relaxed) || gives_up_; });
}

PLAIT_DECL void second_thread::throw_kept() const {
  if (error_ != nullptr) std::rethrow_exception(error_);
}

PLAIT_DECL void second_thread::work() {
  std::unique_lock lock{mutex_};
  for (;;) {
    calls_.wait(lock, [this] { return ends_ || carried_ != handed_; });
    if (carried_ == handed_) return;
    if (error_ == nullptr && !gives_up_) {
      // This slot is reused by hand_over() only after ++carried_.
      auto const& now = ring_[carried_ % most];
      lock.unlock();
      auto const [problem, is_left] = carry_out(now);
      lock.lock();
      if (problem != nullptr) {
        error_ = problem;
        is_left_ = is_left;
        has_failed_.store(true, std::memory_order_release);
      }
    }
    ++carried_;
    rests_.notify_all();
  }
}

PLAIT_DECL std::pair<std::exception_ptr, bool> second_thread::carry_out(handed_call const& now) {
  try {
    now.carry_out(now.of, now.call, now.tensor_bytes);
  } catch (call_left const&) {
    return {std::current_exception(), true};
  } catch (...) {
    return {std::current_exception(), false};
  }
  return {nullptr, false};
}

}  // namespace plait::detail
