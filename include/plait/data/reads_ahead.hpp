// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "plait/core/error.hpp"
#include "plait/core/lean_vector.hpp"

namespace plait::detail {

/// Threads that fill the buffers of the steps to come while one is in use. A buffer is filled place
/// by place, by any of the readers; no place is filled twice, and which reader fills it must not
/// matter.
///
/// The buffer of the step that was taken last is not touched until the next one is taken.
/// Cost:    threads are made by the constructor; nothing is allocated afterwards.
/// Errors:  an exception of the first place of a step that throws comes out of take(step).
/// Threads: take is called by one thread; fill runs on readers, with another number on each.
///
/// `Source`: fill(reader, buffer, step, place) fills a place of a buffer, is_past_end(step) is true
/// of steps that there are not. A template, so that programs that read nothing ahead do not pay for
/// it when they are compiled.
template <class Source>
class reads_ahead {
 public:
  struct shape {
    std::size_t ahead = 1;   ///< steps; there is one buffer more
    std::size_t places = 1;  ///< of each buffer
    int readers = 1;
  };
  /// Errors: error if the system has no more threads.
  [[gnu::cold]] reads_ahead(shape const& how, Source& source)
      : how_(how),
        piece_(std::clamp<std::size_t>(how.places / (4 * std::size_t(how.readers)), 1, 16)),
        source_(source),
        buffers_(how.ahead + 1) {
    threads_.reserve(static_cast<std::size_t>(how.readers));
    // Signals are for the threads of ranks, which look at what they have to end for.
    // What a reader does itself, such as reading behind the end of a file, stays its own.
    sigset_t others, before;
    sigfillset(&others);
    for (int const own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT})
      sigdelset(&others, own);
    pthread_sigmask(SIG_SETMASK, &others, &before);
    std::optional<std::string> problem;
    try {
      for (int reader = 0; reader < how.readers; ++reader)
        threads_.push_back(std::jthread([this, reader] { read(reader); }));
    } catch (std::system_error const& none) {
      problem.emplace(none.what());
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (!problem) return;
    end();
    throw error({"batches: the system gives ", threads_.size(), " of ", how.readers,
                 " threads for batch_options::readers: ", *problem});
  }
  reads_ahead(reads_ahead const&) = delete;
  reads_ahead& operator=(reads_ahead const&) = delete;
  /// Waits until each reader is through with the place that it fills.
  ~reads_ahead() { end(); }

  /// The number of the buffer that has step `step`, when it is full; those behind it are filled
  /// from now on. Another step than the next one drops what has been filled.
  ///
  /// Errors: what filling it has thrown; the step can be taken again, from its beginning.
  [[gnu::cold]] std::size_t take(std::uint64_t step) {
    std::unique_lock lock(mutex_);
    if (!runs_ || step != taken_ + 1) restart(lock, step);
    else open(step + how_.ahead);
    taken_ = step;
    work_.notify_all();
    auto& mine = buffer_of(step);
    over_.wait(lock, [&] { return mine.is_over(how_.places); });
    if (mine.failure != nullptr) {
      runs_ = false;
      std::rethrow_exception(std::exchange(mine.failure, nullptr));
    }
    return step % buffers_.size();
  }

 private:
  struct buffer {
    bool is_open = false;  // for a step
    bool has_failed = false;
    std::uint64_t step = 0;
    std::size_t given = 0, done = 0;  // places that readers have got, and are through with
    std::size_t failed = 0;           // the first place that has thrown
    std::exception_ptr failure{};

    [[nodiscard]] bool is_over(std::size_t places) const {
      return done == given && (given == places || has_failed);
    }
  };
  struct piece {
    buffer* of;
    std::size_t first, end;
  };

  [[nodiscard]] buffer& buffer_of(std::uint64_t step) { return buffers_[step % buffers_.size()]; }
  void open(std::uint64_t step) {
    buffer_of(step) = {};
    if (source_.is_past_end(step)) return;
    buffer_of(step).is_open = true;
    buffer_of(step).step = step;
  }
  void restart(std::unique_lock<std::mutex>& lock, std::uint64_t step) {
    runs_ = false;
    is_dropped_ = true;
    over_.wait(lock, [&] { return active_ == 0; });
    is_dropped_ = false;
    for (std::uint64_t next = step; next <= step + how_.ahead; ++next) open(next);
    taken_ = step;
    runs_ = true;
  }
  [[gnu::cold]] void end() {
    {
      std::scoped_lock const lock(mutex_);
      ends_ = true;
      is_dropped_ = true;
    }
    work_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  /// Places of the first step that has any left. Behind a step that has failed there are none.
  [[nodiscard]] std::optional<piece> next_piece() {
    if (!runs_) return std::nullopt;
    for (std::uint64_t step = taken_; step <= taken_ + how_.ahead; ++step) {
      auto& of = buffer_of(step);
      if (!of.is_open || of.has_failed) return std::nullopt;
      if (of.given == how_.places) continue;
      std::size_t const first = of.given;
      of.given = std::min(first + piece_, how_.places);
      return piece{&of, first, of.given};
    }
    return std::nullopt;
  }

  void read(int reader) {
    std::unique_lock lock(mutex_);
    std::optional<piece> mine;
    while (true) {
      work_.wait(lock, [&] { return ends_ || (mine = next_piece()); });
      if (ends_) return;
      auto const [of, first, end] = *mine;
      std::uint64_t const step = of->step;
      ++active_;
      lock.unlock();
      std::size_t place = first;
      std::exception_ptr failure;
      try {
        for (; place < end && !is_dropped_.load(std::memory_order_relaxed); ++place)
          source_.fill(reader, step % buffers_.size(), step, place);
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      --active_;
      of->done += end - first;
      if (failure != nullptr && (!of->has_failed || place < of->failed)) {
        of->has_failed = true;
        of->failed = place;
        of->failure = std::move(failure);
      }
      if (active_ == 0 || of->is_over(how_.places)) over_.notify_one();
    }
  }

  shape how_;
  std::size_t piece_;  // places that a reader takes at a time
  Source& source_;
  lean_vector<buffer> buffers_;
  std::mutex mutex_{};
  std::condition_variable work_{}, over_{};
  bool runs_ = false, ends_ = false;
  std::atomic<bool> is_dropped_{false};  // what is being filled
  std::uint64_t taken_ = 0;              // the step that was taken last
  int active_ = 0;                       // readers that fill something
  lean_vector<std::jthread> threads_{};
};

}  // namespace plait::detail
