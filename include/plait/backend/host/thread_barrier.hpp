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
  /// The longest wait; a wait that takes longer throws communication_timeout, which lists the state
  /// of every rank.
  std::chrono::nanoseconds timeout = std::chrono::seconds{60};
  /// The number of times that a waiting rank yields its processor to other threads before it
  /// sleeps; -1 chooses automatically.
  int yields = -1;
  /// The number of times that a waiting rank checks, with a pause between two checks, before each
  /// yield; -1 chooses automatically: 0 if there are more ranks than processors.
  int spins = -1;
};

namespace detail {

/// Checks the numbers in `options` and returns `options`.
///
/// Errors: input_error if a number is not in its range.
[[gnu::cold]] thread_options const& checked(thread_options const& options);

// Implements the waits between the ranks of one process. A rank waits until a counter, which only
// grows, reaches a target. For example, a barrier of 4 ranks is a counter that each rank
// increments, and the k-th barrier is over when the counter is 4 k. The top bit of each counter
// says that the world is broken: an error has occurred, and waits throw. Counter and bit are in one
// atomic word, since otherwise one rank could leave a barrier as broken while another rank
// completes it.
class thread_barrier {
 public:
  using counter = std::atomic<std::uint64_t>;

  static constexpr std::uint64_t broken_bit = std::uint64_t{1} << 63;
  static constexpr std::uint64_t count_of(std::uint64_t value) { return value & ~broken_bit; }

  // One wait of one rank: until counter `word` reaches `target`. The ranks `awaited` increment the
  // counter.
  struct wait {
    counter const* word;
    std::uint64_t target;
    // From this count on, other ranks use this rank's buffers, so the wait must not be abandoned.
    std::uint64_t certain_from;
    std::span<int const> awaited;
    collective_call const* call;
    std::vector<int> const* members;
    // True if `certain_from` is not used: instead, other ranks use this rank's buffers while the
    // count is odd.
    bool is_certain_if_odd = false;

    bool over() const;
    bool is_certain(std::uint64_t count) const {
      return is_certain_if_odd ? count % 2 != 0 : count >= certain_from;
    }
  };

  [[gnu::cold]] thread_barrier(int ranks, thread_options options);

  // Registers a counter, so that its top bit is set when the world breaks. All counters are
  // registered before the ranks start.
  void watch(counter& word) { words_.push_back(&word); }

  // Increments the counter and returns the new count; throws if the world is broken.
  std::uint64_t advance(counter& word);

  // Returns when the target is reached; throws if the world breaks first.
  void wait_until_over(int rank, wait const& what);

  // Wakes the ranks among `ranks` that sleep. A rank calls this after it has incremented a counter
  // to the target of these ranks' waits.
  void wake(std::span<int const> ranks);

  // Notes that all ranks begin to run; throws if the world is broken.
  void start();

  // Notes that rank `rank` makes no more calls.
  void finish(int rank);

  void abort(std::string message);

  // Breaks the world because a send and a receive do not agree: every wait throws
  // collective_mismatch with this text.
  [[gnu::cold]] void refuse(std::string text);

 private:
  enum class cause { none, aborted, mismatch, timed_out };

  // Decides if a waiting rank yields its processor or sleeps. Yielding is faster than sleeping if
  // all threads of the machine are ranks. But if another thread never sleeps, each yield takes a
  // time slice of some milliseconds, while a sleeping rank is woken at once. So after a yield that
  // took longer than long_yield, the rank sleeps in its next waits without yielding. The number of
  // these waits doubles each time that a later yield is too long again.
  struct patience_of_rank {
    int sleeps = 0;  // number of next waits in which the rank sleeps at once
    int next_sleeps = fewest_sleeps;
  };
  static constexpr int fewest_sleeps = 64, most_sleeps = 1 << 14;
  static constexpr std::chrono::microseconds long_yield{1000};

  // Yields the processor, or only spins, until the wait is over or it is time to sleep. Returns
  // true if the wait is over.
  bool yield_until_over(patience_of_rank& patience, wait const& what) const;

  struct alignas(64) rank_state {
    std::atomic<bool> asleep = false;
    std::condition_variable bell;
    wait const* waits = nullptr;  // `waits` and `finished` are guarded by mutex_
    bool finished = false;
    patience_of_rank patience{};  // used only by the thread of the rank
  };

  [[gnu::cold]] void sleep_until_over(int rank, wait const& what);

  // The caller of each function below holds the mutex.

  bool has_arrived(int rank, wait const& what) const;

  // Returns true if a rank that `what` awaits has finished or is itself waiting. Only in this case
  // can this wait complete a deadlock, so the costly someone_is_stuck() is called only then.
  bool awaits_a_waiting_rank(wait const& what) const;

  // Returns true if some rank can never continue (deadlock). A rank can continue if it runs, if its
  // wait is over, or if all ranks that it waits for can continue or have arrived. Ranks begin and
  // end to sleep with the mutex held, so the result cannot change later.
  [[gnu::cold]] bool someone_is_stuck();

  // Returns text such as "rank 0 waits in all_reduce of 64 bytes on group {0,1}; rank 1 has
  // finished". Three or more consecutive ranks in the same state are combined: "ranks 1-7 wait in
  // ...".
  [[gnu::cold]] std::string state_text() const;
  [[gnu::cold]] std::string state_of(std::size_t rank, bool of_several) const;

  std::string deadlock_text() const;

  void break_world(cause why, std::string text);

  [[noreturn]] void throw_verdict();

  lean_vector<rank_state> ranks_;
  std::vector<char> can_move_;  // scratch memory of someone_is_stuck(), indexed by rank
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
