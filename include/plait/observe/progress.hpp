// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include "plait/core/clock.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/header_only.hpp"
#include "plait/plan/report/memory_text.hpp"
#include "plait/train/options/trainer_options.hpp"

namespace plait {

/// The way in which `progress` shows the progress of a training.
enum class progress_lines : int {
  /// `live` on a terminal, else `plain`; always `plain` under MPI's launchers, since mpirun gives
  /// ranks terminals of its own and may write their output to a file.
  as_fits,
  live,  ///< one line, which is overwritten again and again
  plain  ///< about twenty lines in the whole training
};

/// Shows the progress of a training: step, loss, speed and time left, from the last 100 steps.
///
/// Each rank makes the object and calls update; only the root prints. It also shows the epoch, the
/// learning rate, the speed in samples (for sequences, in tokens), the share of the time in which
/// the root waited for samples, and the memory that the plan needs on the rank that needs the most.
/// Threads: used by the thread of its rank.
///
/// Example (tests/reference/names_in_use_test.cpp progress):
///     plait::progress bar(trainer, batches);
///     for (auto const& batch : batches) bar.update(trainer.step(batch));
class progress {
 public:
  /// Makes the object without a trainer. `total_steps` is 0 if the total number of steps is
  /// unknown.
  ///
  /// Errors: input_error if `total_steps` is negative.
  explicit progress(std::int64_t total_steps, std::FILE* out = stdout,
                    progress_lines lines = progress_lines::as_fits);

  /// Shows the progress of a trainer on the batches that it is trained on.
  template <class Trainer, class Batches>
    requires requires(Trainer& trainer, Batches const& batches) {
      trainer.planned_bytes(batches);
      batches.steps_per_epoch();
    }
  [[gnu::cold]] progress(Trainer& trainer, Batches const& batches, std::FILE* out = stdout,
                         progress_lines lines = progress_lines::as_fits)
      : total_(static_cast<std::int64_t>(batches.epochs() * batches.steps_per_epoch())),
        out_(out),
        live_(is_live(lines, out)),
        is_quiet_(!trainer.rank().is_root()),
        steps_per_epoch_(static_cast<std::int64_t>(batches.steps_per_epoch())),
        epochs_(static_cast<std::int64_t>(batches.epochs())),
        each_step_(double(batches.description().samples) * double(batches.sequence_length())),
        unit_(batches.sequence_length() > 1 ? "tokens/s" : "samples/s"),
        memory_(
            ext::concat({"  ", detail::with_unit(trainer.planned_bytes(batches)), " planned"})) {}

  /// Shows that step `step`, counted from 0, has ended with this loss.
  void update(std::int64_t step, double loss, double tokens_per_second);

  /// Shows the results of a step. An object that was made without a trainer shows only the step's
  /// number and the loss.
  void update(step_report const& of);

 private:
  using clock = std::chrono::steady_clock;
  struct mark {
    std::int64_t step = 0;
    clock::time_point at{};
    double waited = 0;  // seconds of waiting for samples since the first step
  };
  // The number of latest steps from which the speed is computed.
  static constexpr std::size_t window = 100;

  static bool is_live(progress_lines lines, std::FILE* out);
  static std::string time_text(double seconds);

  void add(std::int64_t step, double waited);
  [[nodiscard]] mark const& newest() const { return marks_[(count_ - 1) % marks_.size()]; }
  [[nodiscard]] mark const& oldest() const {
    return count_ <= marks_.size() ? marks_[0] : marks_[count_ % marks_.size()];
  }
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(newest().at - oldest().at).count();
  }
  [[nodiscard]] double seconds_per_step() const;
  [[nodiscard]] double share_waited() const {
    return std::min(1.0, (newest().waited - oldest().waited) / std::max(seconds(), 1e-9));
  }

  [[nodiscard]] bool is_last(std::int64_t step) const { return step + 1 == total_; }
  [[nodiscard]] bool is_due(std::int64_t step);
  void begin_line(std::int64_t step, double loss);
  void end_line(std::int64_t step);

  std::int64_t total_;  // the total number of steps; 0 if the training has no end
  std::FILE* out_;
  bool live_;
  bool is_quiet_ = false;
  std::int64_t steps_per_epoch_ = 0, epochs_ = 0;
  double each_step_ = 0;  // the number of samples, or of tokens, of a step
  char const* unit_ = "";
  std::string memory_{}, prefix_{};
  clock::time_point begin_ = clock::now(), shown_{};
  std::array<mark, window + 1> marks_{};
  std::size_t count_ = 0;
};

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/observe/progress.ipp"
#endif
