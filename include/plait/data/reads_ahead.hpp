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

/// Runs threads, the readers, that fill the buffers of the next steps while the buffer of the
/// present step is in use. If there are enough readers, reading a batch may therefore take longer
/// than a step. With `ahead` 2 and 4 readers, up to 4 samples of the next two steps are read at the
/// same time. A buffer has places, one for each sample. Any reader can fill a place, each place is
/// filled once, and its content must not depend on the reader.
///
/// The buffer that take() returned last is not changed until the next call of take().
/// Cost:    the constructor starts the threads; nothing is allocated afterwards.
/// Errors:  if fill has thrown for places of a step, take(step) throws the exception of the first
///          of these places.
/// Threads: take is called by one thread; readers call fill, each with its own number `reader`.
class reads_ahead {
 public:
  /// The functions that the readers call.
  struct source {
    /// Fills a place of a buffer with its sample of a step.
    std::function<void(int reader, std::size_t buffer, std::uint64_t step, std::size_t place)> fill;
    /// Returns true if step `step` is after the last step.
    std::function<bool(std::uint64_t step)> is_past_end;
  };
  struct shape {
    /// The number of steps that are read ahead; there are ahead + 1 buffers.
    std::size_t ahead = 1;
    std::size_t places = 1;  ///< the number of places of each buffer
    int readers = 1;
  };
  /// Starts the readers.
  ///
  /// Errors: error if the system cannot start more threads.
  [[gnu::cold]] reads_ahead(shape const& how, source from);
  reads_ahead(reads_ahead const&) = delete;
  reads_ahead& operator=(reads_ahead const&) = delete;
  /// Stops the readers: waits until each reader has filled the place that it has begun.
  ~reads_ahead() { end(); }

  /// Waits until the buffer of step `step` is full and returns the buffer's number. The readers
  /// then fill the buffers of later steps. If `step` is not the step after the last call, the
  /// content of all buffers is dropped.
  ///
  /// Errors: the exception that fill has thrown. A later call can request the step again; all
  ///         samples of the step are then read again.
  [[gnu::cold]] std::size_t take(std::uint64_t step);

 private:
  struct buffer {
    bool is_open = false;  // the buffer is assigned to a step
    bool has_failed = false;
    std::uint64_t step = 0;
    // The numbers of places that readers have begun to fill (given) and have filled (done).
    std::size_t given = 0, done = 0;
    std::size_t failed = 0;  // the first place for which fill has thrown
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

  /// Returns the next places that a reader has to fill, from the earliest step that has places
  /// left. After fill has thrown for a step, no places of later steps are returned.
  [[nodiscard]] std::optional<piece> next_piece();

  void read(int reader);

  shape how_;
  std::size_t piece_;  // the number of consecutive places (samples) that a reader claims at a time
  source source_;
  lean_vector<buffer> buffers_;
  std::mutex mutex_{};
  std::condition_variable work_{}, over_{};
  bool runs_ = false, ends_ = false;
  std::atomic<bool> is_dropped_{
      false};                // true if the places that are being filled are no longer needed
  std::uint64_t taken_ = 0;  // the last step that take() has returned
  int active_ = 0;           // the number of readers that are filling places
  lean_vector<std::jthread> threads_{};
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/data/reads_ahead.ipp"
#endif
