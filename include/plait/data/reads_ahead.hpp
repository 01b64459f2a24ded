// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "plait/core/header_only.hpp"
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
class reads_ahead {
 public:
  /// The functions that the readers call.
  struct source {
    /// Fills a place of a buffer.
    std::function<void(int reader, std::size_t buffer, std::uint64_t step, std::size_t place)> fill;
    /// Returns true of steps that there are not.
    std::function<bool(std::uint64_t step)> is_past_end;
  };
  struct shape {
    std::size_t ahead = 1;   ///< steps; there is one buffer more
    std::size_t places = 1;  ///< of each buffer
    int readers = 1;
  };
  /// Errors: error if the system has no more threads.
  [[gnu::cold]] reads_ahead(shape const& how, source from);
  reads_ahead(reads_ahead const&) = delete;
  reads_ahead& operator=(reads_ahead const&) = delete;
  /// Waits until each reader is through with the place that it fills.
  ~reads_ahead() { end(); }

  /// The number of the buffer that has step `step`, when it is full; those behind it are filled
  /// from now on. Another step than the next one drops what has been filled.
  ///
  /// Errors: what filling it has thrown; the step can be taken again, from its beginning.
  [[gnu::cold]] std::size_t take(std::uint64_t step);

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
  void open(std::uint64_t step);
  void restart(std::unique_lock<std::mutex>& lock, std::uint64_t step);
  [[gnu::cold]] void end();

  /// Places of the first step that has any left. Behind a step that has failed there are none.
  [[nodiscard]] std::optional<piece> next_piece();

  void read(int reader);

  shape how_;
  std::size_t piece_;  // places that a reader takes at a time
  source source_;
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

#if PLAIT_HEADER_ONLY
#include "plait/data/reads_ahead.ipp"
#endif
