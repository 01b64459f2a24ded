// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "plait/backend/collective_call.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"

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
[[gnu::cold]] thread_options const& checked(thread_options const& options);

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

    bool over() const;
    bool is_certain(std::uint64_t count) const {
      return is_certain_if_odd ? count % 2 != 0 : count >= certain_from;
    }
  };

  [[gnu::cold]] thread_barrier(int ranks, thread_options options);

  // Breaking the world must reach every counter; all are declared before the ranks start.
  void watch(counter& word) { words_.push_back(&word); }

  // Counts one up and returns the new count; throws if the world is broken.
  std::uint64_t advance(counter& word);

  // Returns when the target is reached; throws if the world breaks before.
  void wait_until_over(int rank, wait const& what);

  // Wakes those of `ranks` that sleep; called after a counter reached what they wait for.
  void wake(std::span<int const> ranks);

  // All ranks begin to run.
  void start();

  // Rank `rank` will call nothing any more.
  void finish(int rank);

  void abort(std::string message);

  // Two ends of a message do not fit: every wait throws collective_mismatch with this text.
  [[gnu::cold]] void refuse(std::string text);

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
  bool yield_until_over(patience_of_rank& patience, wait const& what) const;

  struct alignas(64) rank_state {
    std::atomic<bool> asleep = false;
    std::condition_variable bell;
    wait const* waits = nullptr;  // this and the next under the mutex
    bool finished = false;
    patience_of_rank patience{};  // the rank's own
  };

  [[gnu::cold]] void sleep_until_over(int rank, wait const& what);

  // The rest is called with the mutex held.

  bool has_arrived(int rank, wait const& what) const;

  // Cheap test before the thorough one: only then can this wait be the last one of a deadlock.
  bool awaits_a_waiting_rank(wait const& what) const;

  // A rank can move if it runs, if its wait is over, or if all ranks it waits for can move. Only
  // registered ranks count as waiting and they leave under the mutex, so what is found is final.
  [[gnu::cold]] bool someone_is_stuck();

  // "rank 0 waits in all_reduce of 64 bytes on group {0,1}; rank 1 has finished"; three or more
  // that follow each other and do the same: "ranks 1-7 wait in ..."
  [[gnu::cold]] std::string state_text() const;
  [[gnu::cold]] std::string state_of(std::size_t rank, bool of_several) const;

  std::string deadlock_text() const;

  void break_world(cause why, std::string text);

  [[noreturn]] void throw_verdict();

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

#if PLAIT_HEADER_ONLY
#include "plait/backend/host/thread_barrier.ipp"
#endif
