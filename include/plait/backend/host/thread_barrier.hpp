// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "plait/backend/collective_call.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/number_range.hpp"

namespace plait {

/// The options by which the ranks of a thread_world wait for each other.
struct thread_options {
  /// A wait longer than this is an error that says what every rank does.
  std::chrono::nanoseconds timeout = std::chrono::seconds{60};
  /// How often a rank yields its processor to other threads before it sleeps; -1 chooses.
  int yields = -1;
  /// How often it looks, with a pause between, before each yield; -1 chooses: not at all where
  /// there are more ranks than processors.
  int spins = -1;
};

namespace detail {

/// Errors: input_error if a number is not in its range.
[[gnu::cold]] inline thread_options const& checked(thread_options const& options) {
  require_range("thread_options::timeout", options.timeout, number_ranges::above_0);
  require_range("thread_options::yields", options.yields, number_ranges::at_least_minus_1);
  require_range("thread_options::spins", options.spins, number_ranges::at_least_minus_1);
  return options;
}

inline void pause_processor() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Where the ranks of one process wait for each other. Whatever is waited for is a counter that only
// grows; its top bit says that the world is broken. One atomic word holds both, so that a rank that
// leaves a broken barrier and a rank that completes it cannot both succeed.
class thread_barrier {
 public:
  using counter = std::atomic<std::uint64_t>;

  static constexpr std::uint64_t broken_bit = std::uint64_t{1} << 63;
  static constexpr std::uint64_t count_of(std::uint64_t value) { return value & ~broken_bit; }

  // One wait of one rank: until `word` counts to `target`, which the ranks `awaited` will do.
  struct wait {
    counter const* word;
    std::uint64_t target;
    std::uint64_t certain_from;  // from this count on others use our buffers: stay, come what may
    std::span<int const> awaited;
    collective_call const* call;
    std::vector<int> const* members;
    bool is_certain_if_odd = false;  // instead of certain_from: at odd counts others use them

    bool over() const {
      auto const value = word->load();
      return count_of(value) >= target ||
             ((value & broken_bit) != 0 && !is_certain(count_of(value)));
    }
    bool is_certain(std::uint64_t count) const {
      return is_certain_if_odd ? count % 2 != 0 : count >= certain_from;
    }
  };

  [[gnu::cold]] thread_barrier(int ranks, thread_options options)
      : ranks_(static_cast<std::size_t>(ranks)),
        can_move_(static_cast<std::size_t>(ranks)),
        timeout_(std::clamp<std::chrono::nanoseconds>(
            checked(options).timeout, std::chrono::milliseconds{1}, std::chrono::hours{24 * 365})) {
    auto const processors = static_cast<int>(std::thread::hardware_concurrency());
    bool const own_processor = processors == 0 || ranks <= processors;
    spins_ = options.spins >= 0 ? options.spins : own_processor ? 20 : 0;
    yields_ = options.yields >= 0 ? options.yields : own_processor ? 50 : 10;
  }

  // Breaking the world must reach every counter; all are declared before the ranks start.
  void watch(counter& word) { words_.push_back(&word); }

  // Counts one up and returns the new count; throws if the world is broken.
  std::uint64_t advance(counter& word) {
    auto value = word.load();
    do {
      if ((value & broken_bit) != 0) throw_verdict();
    } while (!word.compare_exchange_weak(value, value + 1));
    return value + 1;
  }

  // Returns when the target is reached; throws if the world breaks before.
  void wait_until_over(int rank, wait const& what) {
    if (!what.over() && !yield_until_over(ranks_[static_cast<std::size_t>(rank)].patience, what))
      sleep_until_over(rank, what);
    if (count_of(what.word->load()) < what.target) throw_verdict();
  }

  // Wakes those of `ranks` that sleep; called after a counter reached what they wait for.
  void wake(std::span<int const> ranks) {
    // Sleeper: asleep = true, then look at the counter. Waker: counter, then look at asleep. All
    // four are sequentially consistent, so at least one of the two sees the other.
    bool locked = false;
    for (int const rank : ranks) {
      auto& sleeper = ranks_[static_cast<std::size_t>(rank)];
      if (!sleeper.asleep.load()) continue;
      if (!locked) {  // so that a sleeper that has looked too early is in its wait by now
        std::scoped_lock const lock{mutex_};
        locked = true;
      }
      sleeper.bell.notify_one();
    }
  }

  // All ranks begin to run.
  void start() {
    {
      std::scoped_lock const lock{mutex_};
      for (auto& rank : ranks_) rank.finished = false;
      if (cause_ == cause::none) return;
    }
    throw_verdict();
  }

  // Rank `rank` will call nothing any more.
  void finish(int rank) {
    std::scoped_lock const lock{mutex_};
    ranks_[static_cast<std::size_t>(rank)].finished = true;
    if (someone_is_stuck()) break_world(cause::mismatch, deadlock_text());
  }

  void abort(std::string message) {
    std::scoped_lock const lock{mutex_};
    break_world(cause::aborted, std::move(message));
  }

  // Two ends of a message do not fit: every wait throws collective_mismatch with this text.
  [[gnu::cold]] void refuse(std::string text) {
    std::scoped_lock const lock{mutex_};
    break_world(cause::mismatch, std::move(text));
  }

 private:
  enum class cause { none, aborted, mismatch, timed_out };

  // How a rank waits before it sleeps. To yield is faster than to sleep where all threads of the
  // machine are ranks. Beside a thread that never sleeps each yield costs a slice of time, some
  // milliseconds, while a rank that sleeps is woken at once. So after a yield that took so long the
  // rank sleeps in its next waits, in twice as many each time that it finds the same again.
  struct patience_of_rank {
    int sleeps = 0;  // waits that are still to be slept through
    int next_sleeps = fewest_sleeps;
  };
  static constexpr int fewest_sleeps = 64, most_sleeps = 1 << 14;
  static constexpr std::chrono::microseconds long_yield{1000};

  // True if it is over.
  bool yield_until_over(patience_of_rank& patience, wait const& what) const {
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

  struct alignas(64) rank_state {
    std::atomic<bool> asleep = false;
    std::condition_variable bell;
    wait const* waits = nullptr;  // this and the next under the mutex
    bool finished = false;
    patience_of_rank patience{};  // the rank's own
  };

  [[gnu::cold]] void sleep_until_over(int rank, wait const& what) {
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

  // The rest is called with the mutex held.

  bool has_arrived(int rank, wait const& what) const {
    auto const* const other = ranks_[static_cast<std::size_t>(rank)].waits;
    return other != nullptr && other->word == what.word && other->target == what.target;
  }

  // Cheap test before the thorough one: only then can this wait be the last one of a deadlock.
  bool awaits_a_waiting_rank(wait const& what) const {
    return std::any_of(what.awaited.begin(), what.awaited.end(), [&](int rank) {
      auto const& state = ranks_[static_cast<std::size_t>(rank)];
      return (state.finished || state.waits != nullptr) && !has_arrived(rank, what);
    });
  }

  // A rank can move if it runs, if its wait is over, or if all ranks it waits for can move. Only
  // registered ranks count as waiting and they leave under the mutex, so what is found is final.
  [[gnu::cold]] bool someone_is_stuck() {
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

  // "rank 0 waits in all_reduce of 64 bytes on group {0,1}; rank 1 has finished"; three or more
  // that follow each other and do the same: "ranks 1-7 wait in ..."
  [[gnu::cold]] std::string state_text() const {
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
  [[gnu::cold]] std::string state_of(std::size_t rank, bool of_several) const {
    if (ranks_[rank].finished) return of_several ? " have finished" : " has finished";
    if (auto const* const what = ranks_[rank].waits)
      return concat(
          {of_several ? " wait in " : " waits in ", call_text(*what->call, *what->members)});
    return of_several ? " are running" : " is running";
  }

  std::string deadlock_text() const { return concat({"deadlock: ", state_text()}); }

  void break_world(cause why, std::string text) {
    if (cause_ != cause::none) return;  // the first cause is the one to report
    cause_ = why;
    verdict_ = std::move(text);
    for (auto* const word : words_) word->fetch_or(broken_bit);
    for (auto& rank : ranks_) rank.bell.notify_one();
  }

  [[noreturn]] void throw_verdict() {
    std::scoped_lock const lock{mutex_};
    if (cause_ == cause::mismatch) throw collective_mismatch(verdict_);
    if (cause_ == cause::timed_out) throw communication_timeout(verdict_);
    throw job_aborted(verdict_);
  }

  lean_vector<rank_state> ranks_;
  std::vector<char> can_move_;  // scratch of someone_is_stuck()
  lean_vector<counter*> words_;
  alignas(64) std::mutex mutex_;
  cause cause_ = cause::none;
  std::string verdict_;
  std::chrono::nanoseconds timeout_;
  int spins_ = 0;
  int yields_ = 0;
};

}  // namespace detail
}  // namespace plait
