// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/host/thread_barrier.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/number_range.hpp"

namespace plait::detail {

PLAIT_DECL thread_options const& checked(thread_options const& options) {
  require_range("thread_options::timeout", options.timeout, number_ranges::above_0);
  require_range("thread_options::yields", options.yields, number_ranges::at_least_minus_1);
  require_range("thread_options::spins", options.spins, number_ranges::at_least_minus_1);
  return options;
}

PLAIT_DECL void pause_processor() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

PLAIT_DECL bool thread_barrier::wait::over() const {
  auto const value = word->load();
  return count_of(value) >= target || ((value & broken_bit) != 0 && !is_certain(count_of(value)));
}

PLAIT_DECL thread_barrier::thread_barrier(int ranks, thread_options options)
    : ranks_(static_cast<std::size_t>(ranks)),
      can_move_(static_cast<std::size_t>(ranks)),
      timeout_(std::clamp<std::chrono::nanoseconds>(
          checked(options).timeout, std::chrono::milliseconds{1}, std::chrono::hours{24 * 365})) {
  auto const processors = static_cast<int>(std::thread::hardware_concurrency());
  bool const own_processor = processors == 0 || ranks <= processors;
  spins_ = options.spins >= 0 ? options.spins : own_processor ? 20 : 0;
  yields_ = options.yields >= 0 ? options.yields : own_processor ? 50 : 10;
}

PLAIT_DECL std::uint64_t thread_barrier::advance(counter& word) {
  auto value = word.load();
  do {
    if ((value & broken_bit) != 0) throw_verdict();
  } while (!word.compare_exchange_weak(value, value + 1));
  return value + 1;
}

PLAIT_DECL void thread_barrier::wait_until_over(int rank, wait const& what) {
  if (!what.over() && !yield_until_over(ranks_[static_cast<std::size_t>(rank)].patience, what))
    sleep_until_over(rank, what);
  if (count_of(what.word->load()) < what.target) throw_verdict();
}

PLAIT_DECL void thread_barrier::wake(std::span<int const> ranks) {
  // The sleeping rank sets `asleep` and then reads the counter. The waking rank sets the counter
  // and then reads `asleep`. All four accesses are sequentially consistent, so at least one of the
  // two ranks sees the other rank's write.
  bool locked = false;
  for (int const rank : ranks) {
    auto& sleeper = ranks_[static_cast<std::size_t>(rank)];
    if (!sleeper.asleep.load()) continue;
    if (!locked) {  // when the mutex is free, a rank that read the counter too early already waits
                    // for its bell
      std::scoped_lock const lock{mutex_};
      locked = true;
    }
    sleeper.bell.notify_one();
  }
}

PLAIT_DECL void thread_barrier::start() {
  {
    std::scoped_lock const lock{mutex_};
    for (auto& rank : ranks_) rank.finished = false;
    if (cause_ == cause::none) return;
  }
  throw_verdict();
}

PLAIT_DECL void thread_barrier::finish(int rank) {
  std::scoped_lock const lock{mutex_};
  ranks_[static_cast<std::size_t>(rank)].finished = true;
  if (someone_is_stuck()) break_world(cause::mismatch, deadlock_text());
}

PLAIT_DECL void thread_barrier::abort(std::string message) {
  std::scoped_lock const lock{mutex_};
  break_world(cause::aborted, std::move(message));
}

PLAIT_DECL void thread_barrier::refuse(std::string text) {
  std::scoped_lock const lock{mutex_};
  break_world(cause::mismatch, std::move(text));
}

PLAIT_DECL bool thread_barrier::yield_until_over(patience_of_rank& patience,
                                                 wait const& what) const {
  bool over = false;
  for (int round = 0; !over && round < yields_; ++round) {
    for (int i = 0; !over && i < spins_; ++i, over = what.over()) pause_processor();
    if (over) break;
    if (patience.sleeps > 0) return --patience.sleeps, false;
    auto const before = std::chrono::steady_clock::now();
    std::this_thread::yield();
    over = what.over();
    if (std::chrono::steady_clock::now() - before < long_yield) continue;
    patience.sleeps = patience.next_sleeps;
    patience.next_sleeps = std::min(2 * patience.next_sleeps, most_sleeps);
    return over;
  }
  patience.next_sleeps = fewest_sleeps;
  return over;
}

PLAIT_DECL void thread_barrier::sleep_until_over(int rank, wait const& what) {
  std::unique_lock lock{mutex_};
  auto& me = ranks_[static_cast<std::size_t>(rank)];
  me.waits = &what;
  me.asleep.store(true);
  if (awaits_a_waiting_rank(what) && someone_is_stuck())
    break_world(cause::mismatch, deadlock_text());
  auto deadline = std::chrono::steady_clock::now() + timeout_;
  while (!what.over()) {
    if (me.bell.wait_until(lock, deadline) == std::cv_status::no_timeout || what.over()) continue;
    auto const limit = std::chrono::duration_cast<std::chrono::milliseconds>(timeout_).count();
    if (!what.is_certain(count_of(what.word->load())))
      break_world(cause::timed_out,
                  concat({"rank ", rank, " waited longer than ", limit, " ms: ", state_text()}));
    deadline += timeout_;
  }
  me.asleep.store(false);
  me.waits = nullptr;
}

PLAIT_DECL bool thread_barrier::has_arrived(int rank, wait const& what) const {
  auto const* const other = ranks_[static_cast<std::size_t>(rank)].waits;
  return other != nullptr && other->word == what.word && other->target == what.target;
}

PLAIT_DECL bool thread_barrier::awaits_a_waiting_rank(wait const& what) const {
  return std::any_of(what.awaited.begin(), what.awaited.end(), [&](int rank) {
    auto const& state = ranks_[static_cast<std::size_t>(rank)];
    return (state.finished || state.waits != nullptr) && !has_arrived(rank, what);
  });
}

PLAIT_DECL bool thread_barrier::someone_is_stuck() {
  for (std::size_t i = 0; i < ranks_.size(); ++i)
    can_move_[i] = !ranks_[i].finished && (ranks_[i].waits == nullptr || ranks_[i].waits->over());
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (can_move_[i] != 0 || ranks_[i].finished) continue;
      auto const& what = *ranks_[i].waits;
      bool const movable = std::all_of(what.awaited.begin(), what.awaited.end(), [&](int rank) {
        return can_move_[static_cast<std::size_t>(rank)] != 0 || has_arrived(rank, what);
      });
      can_move_[i] = movable;
      changed = changed || movable;
    }
  }
  for (std::size_t i = 0; i < ranks_.size(); ++i)
    if (can_move_[i] == 0 && !ranks_[i].finished) return true;
  return false;
}

PLAIT_DECL std::string thread_barrier::state_text() const {
  std::string text;
  for (std::size_t i = 0, next = 0; i < ranks_.size(); i = next) {
    auto const same = [&](std::size_t other) {
      return other < ranks_.size() && state_of(other, true) == state_of(i, true);
    };
    for (next = i + 1; same(i + 1) && same(i + 2) && same(next); ++next) {
    }
    text += i == 0 ? "" : "; ";
    if (next == i + 1) text += concat({"rank ", i, state_of(i, false)});
    else text += concat({"ranks ", i, "-", next - 1, state_of(i, true)});
  }
  return text;
}

PLAIT_DECL std::string thread_barrier::state_of(std::size_t rank, bool of_several) const {
  if (ranks_[rank].finished) return of_several ? " have finished" : " has finished";
  if (auto const* const what = ranks_[rank].waits)
    return concat(
        {of_several ? " wait in " : " waits in ", call_text(*what->call, *what->members)});
  return of_several ? " are running" : " is running";
}

PLAIT_DECL std::string thread_barrier::deadlock_text() const {
  return concat({"deadlock: ", state_text()});
}

PLAIT_DECL void thread_barrier::break_world(cause why, std::string text) {
  if (cause_ != cause::none) return;  // only the first cause is reported
  cause_ = why;
  verdict_ = std::move(text);
  for (auto* const word : words_) word->fetch_or(broken_bit);
  for (auto& rank : ranks_) rank.bell.notify_one();
}

PLAIT_DECL void thread_barrier::throw_verdict() {
  std::scoped_lock const lock{mutex_};
  if (cause_ == cause::mismatch) throw collective_mismatch(verdict_);
  if (cause_ == cause::timed_out) throw communication_timeout(verdict_);
  throw job_aborted(verdict_);
}

}  // namespace plait::detail
