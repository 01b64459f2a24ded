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

/// The thread of a rank that carries out the collectives of stream data, one after the other, while
/// the rank's own thread computes. For example, the all_reduce of layer 8's gradients runs while
/// layer 7 computes its backward pass.
///
/// A call reads all values that the rank's own thread wrote before hand_over(), and that thread
/// reads the results after wait_for() (release and acquire). Neither thread spins while it waits.
/// Cost:    a mutex for each call and each wait, and a wake-up if the other thread sleeps; no
///          allocation.
/// Errors:  if a call throws, its exception is stored and later calls are not carried out; each
///          function that is not noexcept then throws this exception.
/// Threads: used by the rank's own thread; only the second thread calls pause().
class second_thread final : public call_pause {
 public:
  /// A call that is handed over; to carry it out, the second thread calls carry_out(of, call,
  /// tensor_bytes).
  struct handed_call {
    void (*carry_out)(void* of, collective_call const& call, std::size_t tensor_bytes) = nullptr;
    void* of = nullptr;
    collective_call call{};
    std::size_t tensor_bytes = 0;
    call_work work{};  ///< a copy of the call's work, made by hand_over()
  };
  /// Maximum number of calls that have been handed over but not carried out; if there are as many,
  /// hand_over() waits.
  static constexpr std::size_t most = 64;

  /// `give_up()` must end a call that is under way. Any thread may call it, and it must not throw.
  explicit second_thread(std::function<void()> give_up)
      : give_up_(std::move(give_up)), thread_([this] { work(); }) {}
  second_thread(second_thread const&) = delete;
  second_thread& operator=(second_thread const&) = delete;
  ~second_thread() override { end(); }

  void hand_over(handed_call const& one);
  /// Returns true if the caller is the second thread.
  [[nodiscard]] bool is_current() const { return thread_.get_id() == std::this_thread::get_id(); }
  /// Returns the number of calls that have been handed over.
  [[nodiscard]] std::uint64_t handed();
  /// Returns when the first `count` calls have been carried out.
  void wait_for(std::uint64_t count);
  /// Returns when all calls have been carried out.
  void drain();
  /// Throws the exception of a failed call, if there is one.
  void require_sound();

  /// Throws the exception of a failed call, if there is one; called when the rank's own thread has
  /// failed, since the call may be the cause. `is_due`: a call is known to have failed, so the
  /// function waits up to 1 s for its exception.
  void rethrow_earlier(bool is_due);

  /// Ends the call that is under way and carries out no more calls.
  void give_up() noexcept;
  /// Waits until no call uses the rank's memory, since an arena is about to free it. If the rank's
  /// program ends by an exception, the calls are given up after 100 ms. Returns false if a library
  /// may still use the memory, see call_left.
  [[nodiscard]] bool rest() noexcept;
  /// Waits until all calls that were handed over are done, and ends the thread.
  void end() noexcept;

  /// Called by the second thread between two polls of a call, after `looks` earlier pauses. Sleeps
  /// for at most 100 us, so that the processor is free for the rank's own thread. If the rank's own
  /// thread waits, too, pause() only yields.
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
  std::mutex mutex_;  // guards all members below
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
