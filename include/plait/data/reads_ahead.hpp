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

/// Threads that fill the buffers of the next steps while one is in use. Reading a batch may take
/// longer than a step; with `ahead` 2 and 4 readers, 4 samples are read at a time for the next two
/// steps. A buffer is filled place by place, by any reader: a place is filled once, and its content
/// must not depend on the reader.
///
/// The buffer that was taken last is not touched until the next one is taken.
/// Cost:    threads are made by the constructor; nothing is allocated afterwards.
/// Errors:  take(step) throws the exception of the first place of the step that has thrown.
/// Threads: take is called by one thread; readers call fill, each with another `reader`.
class reads_ahead {
 public:
  /// The functions that the readers call.
  struct source {
    /// Fills a place of a buffer.
    std::function<void(int reader, std::size_t buffer, std::uint64_t step, std::size_t place)> fill;
    /// Returns true for steps after the last one.
    std::function<bool(std::uint64_t step)> is_past_end;
  };
  struct shape {
    std::size_t ahead = 1;   ///< steps that are read ahead; there is one buffer more
    std::size_t places = 1;  ///< places of each buffer
    int readers = 1;
  };
  /// Errors: error if the system has no more threads.
  [[gnu::cold]] reads_ahead(shape const& how, source from);
  reads_ahead(reads_ahead const&) = delete;
  reads_ahead& operator=(reads_ahead const&) = delete;
  /// Waits until each reader has filled its present place.
  ~reads_ahead() { end(); }

  /// Waits until the buffer of step `step` is full and returns its number; from then on later
  /// buffers are filled. Another step than the next one drops all filled buffers.
  ///
  /// Errors: an exception of filling it; the step can be taken again, and is then read from its
  ///         beginning.
  [[gnu::cold]] std::size_t take(std::uint64_t step);

 private:
  struct buffer {
    bool is_open = false;  // used for a step
    bool has_failed = false;
    std::uint64_t step = 0;
    std::size_t given = 0, done = 0;  // places that readers have begun, and have finished
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

  /// Returns places of the first step with places left; none after a step that has failed.
  [[nodiscard]] std::optional<piece> next_piece();

  void read(int reader);

  shape how_;
  std::size_t piece_;  // places that a reader takes at a time
  source source_;
  lean_vector<buffer> buffers_;
  std::mutex mutex_{};
  std::condition_variable work_{}, over_{};
  bool runs_ = false, ends_ = false;
  std::atomic<bool> is_dropped_{false};  // the places being filled are obsolete
  std::uint64_t taken_ = 0;              // the step that was taken last
  int active_ = 0;                       // readers that are filling places
  lean_vector<std::jthread> threads_{};
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/data/reads_ahead.ipp"
#endif
