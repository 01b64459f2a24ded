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

/// The options for waits between the ranks of a thread_world.
struct thread_options {
  /// The longest wait; a longer one is an error that lists the state of every rank.
  std::chrono::nanoseconds timeout = std::chrono::seconds{60};
  /// The number of times that a rank yields its processor to other threads before it sleeps; -1
  /// chooses automatically.
  int yields = -1;
  /// The number of times that it checks, with a pause between, before each yield; -1 chooses
  /// automatically: 0 if there are more ranks than processors.
  int spins = -1;
};

namespace detail {

/// Errors: input_error if a number is not in its range.
[[gnu::cold]] thread_options const& checked(thread_options const& options);

// The place at which the ranks of one process wait for each other. Each wait is for a counter that
// only grows; its top bit says that the world is broken. One atomic word holds both, so that a rank
// that leaves a broken barrier and a rank that completes it cannot both succeed. For example, a
// barrier of 4 ranks is a counter that each rank increments; the k-th barrier is over at 4 k.
class thread_barrier {
 public:
  using counter = std::atomic<std::uint64_t>;

  static constexpr std::uint64_t broken_bit = std::uint64_t{1} << 63;
  static constexpr std::uint64_t count_of(std::uint64_t value) { return value & ~broken_bit; }

  // One wait of one rank: until `word` counts to `target`, to which the ranks `awaited` count it.
  struct wait {
    counter const* word;
    std::uint64_t target;
    std::uint64_t certain_from;  // from this count on, other ranks use our buffers: do not leave
    std::span<int const> awaited;
    collective_call const* call;
    std::vector<int> const* members;
    bool is_certain_if_odd = false;  // instead of certain_from: they are used at odd counts

    bool over() const;
    bool is_certain(std::uint64_t count) const {
      return is_certain_if_odd ? count % 2 != 0 : count >= certain_from;
    }
  };

  [[gnu::cold]] thread_barrier(int ranks, thread_options options);

  // Registers a counter, so that breaking the world reaches it; all are registered before the ranks
  // start.
  void watch(counter& word) { words_.push_back(&word); }

  // Increments the counter and returns the new count; throws if the world is broken.
  std::uint64_t advance(counter& word);

  // Returns when the target is reached; throws if the world breaks before.
  void wait_until_over(int rank, wait const& what);

  // Wakes the sleeping ranks among `ranks`; called after a counter has reached their target.
  void wake(std::span<int const> ranks);

  // Notes that all ranks begin to run.
  void start();

  // Notes that rank `rank` makes no more calls.
  void finish(int rank);

  void abort(std::string message);

  // Notes that two ends of a message do not fit: every wait throws collective_mismatch with this
  // text.
  [[gnu::cold]] void refuse(std::string text);

 private:
  enum class cause { none, aborted, mismatch, timed_out };

  // How a rank waits before it sleeps. Yielding is faster than sleeping if all threads of the
  // machine are ranks. But next to a thread that never sleeps, each yield costs a time slice of
  // some milliseconds, while a sleeping rank is woken at once. So after a yield that took that
  // long, the rank sleeps in its next waits, and in twice as many each time that it finds this
  // again.
  struct patience_of_rank {
    int sleeps = 0;  // number of waits in which it still sleeps
    int next_sleeps = fewest_sleeps;
  };
  static constexpr int fewest_sleeps = 64, most_sleeps = 1 << 14;
  static constexpr std::chrono::microseconds long_yield{1000};

  // Returns true if the wait is over.
  bool yield_until_over(patience_of_rank& patience, wait const& what) const;

  struct alignas(64) rank_state {
    std::atomic<bool> asleep = false;
    std::condition_variable bell;
    wait const* waits = nullptr;  // this and the next are guarded by the mutex
    bool finished = false;
    patience_of_rank patience{};  // used by the rank only
  };

  [[gnu::cold]] void sleep_until_over(int rank, wait const& what);

  // The functions below are called with the mutex held.

  bool has_arrived(int rank, wait const& what) const;

  // A cheap test before the thorough one: only then can this wait complete a deadlock.
  bool awaits_a_waiting_rank(wait const& what) const;

  // Returns true if some rank can never continue. A rank can continue if it runs, if its wait is
  // over, or if all ranks that it waits for can continue. Only registered ranks count as waiting,
  // and they leave under the mutex, so the result is final.
  [[gnu::cold]] bool someone_is_stuck();

  // Returns text such as "rank 0 waits in all_reduce of 64 bytes on group {0,1}; rank 1 has
  // finished"; three or more consecutive ranks in one state are joined: "ranks 1-7 wait in ...".
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
