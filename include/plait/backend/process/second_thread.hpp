// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "plait/backend/collective_call.hpp"
#include "plait/backend/process/process_engine.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// The thread of a rank that carries out what stream data is given, one call behind the other,
/// while the rank's own thread goes on.
///
/// What a thread has written is seen by the other: the calls' memory by this one from hand_over()
/// on, what calls have written by the rank's own behind wait_for(). Neither spins while it waits.
/// Cost:    a mutex for each call and each wait, and a wake-up where the other sleeps; no
///          allocation.
/// Errors:  what a call has thrown is kept; calls behind it are dropped, and each function that
///          does not say noexcept throws it.
/// Threads: the rank's own, but for pause().
class second_thread final : public call_pause {
 public:
  /// A call, and who carries it out: carry_out(of, call, tensor_bytes).
  struct handed_call {
    void (*carry_out)(void* of, collective_call const& call, std::size_t tensor_bytes) = nullptr;
    void* of = nullptr;
    collective_call call{};
    std::size_t tensor_bytes = 0;
  };
  /// So many are on their way at a time; who hands over more waits.
  static constexpr std::size_t most = 64;

  /// `give_up()` ends a call that is under way, in any thread; it throws nothing.
  explicit second_thread(std::function<void()> give_up)
      : give_up_(std::move(give_up)), thread_([this] { work(); }) {}
  second_thread(second_thread const&) = delete;
  second_thread& operator=(second_thread const&) = delete;
  ~second_thread() override { end(); }

  void hand_over(handed_call const& one);
  /// How many calls have been handed over.
  [[nodiscard]] std::uint64_t handed();
  /// Returns when the first `count` calls have been carried out.
  void wait_for(std::uint64_t count);
  /// Returns when all have.
  void drain();
  /// Throws what a call has thrown, if one has.
  void require_sound();

  /// The rank's own thread has failed: throws what a call of this one has thrown before. `is_due`:
  /// one has failed, and may be about to say so.
  void rethrow_earlier(bool is_due);

  /// No call is to be begun any more, and the one that is under way ends.
  void give_up() noexcept;
  /// Returns when no call can use memory any more that is about to go. Where an exception ends the
  /// rank's program, what does not end in a moment is given up. False if a library may still use
  /// the memory, see call_left.
  [[nodiscard]] bool rest() noexcept;
  /// Ends the thread, behind the calls that it has been handed.
  void end() noexcept;

  /// The second thread, between two looks at a call that has not ended, of which there were `looks`
  /// before: sleeps for at most 100 us, so that it takes nothing from a computation. While the
  /// rank's own thread waits as well there is none, and it only lets others run.
  void pause(int looks) override;

 private:
  static constexpr std::chrono::microseconds shortest_pause{5}, longest_pause{100};
  static constexpr std::chrono::milliseconds a_moment{100};

  template <class Condition>
  void wait(std::unique_lock<std::mutex>& lock, Condition condition) {
    if (condition()) return;
    waits_.store(true, std::memory_order_relaxed);
    pauses_.notify_one();
    rests_.wait(lock, condition);
    waits_.store(false, std::memory_order_relaxed);
  }
  void throw_kept() const;

  void work();
  static std::pair<std::exception_ptr, bool> carry_out(handed_call const& now);

  std::function<void()> give_up_;
  int exceptions_ = std::uncaught_exceptions();
  std::mutex mutex_;  // of all that follows
  std::condition_variable calls_, rests_, pauses_;
  std::array<handed_call, most> ring_{};
  std::uint64_t handed_ = 0, carried_ = 0;
  std::exception_ptr error_;
  bool ends_ = false, gives_up_ = false, is_left_ = false;
  std::atomic<bool> waits_{false}, has_failed_{false};
  std::thread thread_;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/process/second_thread.ipp"
#endif
