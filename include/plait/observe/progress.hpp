// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "plait/core/clock.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/number_range.hpp"
#include "plait/plan/memory_text.hpp"
#include "plait/train/trainer_options.hpp"

namespace plait {

/// The way in which progress is shown.
enum class progress_lines : int {
  /// Live on a terminal, plain otherwise. Plain under MPI's launchers: mpirun gives ranks terminals
  /// of its own, and what they write may go to a file.
  as_fits,
  live,  ///< one line that is written over again and again
  plain  ///< about twenty lines
};

/// Shows how far a training is: step, loss, speed, time left, as the last 100 steps were.
///
/// `plait::progress shown(trainer, batches); ... shown.update(trainer.step(batch));` on each rank,
/// of which the root writes, knows the epoch, the learning rate, how fast samples (tokens, where
/// there are sequences) are trained on, what share of the time the root waited for them, and what
/// the plan says that the rank with the greatest need needs in memory.
/// Threads: used by the thread of its rank.
///
/// Example (tests/reference/names_in_use_test.cpp progress):
///     plait::progress bar(trainer, batches);
///     for (auto const& batch : batches) bar.update(trainer.step(batch));
class progress {
 public:
  /// Errors: input_error if `total_steps` is negative.
  explicit progress(std::int64_t total_steps, std::FILE* out = stdout,
                    progress_lines lines = progress_lines::as_fits)
      : total_(total_steps), out_(out), live_(is_live(lines, out)) {
    detail::require_range("progress: total_steps", static_cast<double>(total_steps),
                          number_ranges::at_least_0);
  }

  /// Of a trainer and the batches that it is trained on.
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

  /// Says that step `step` (from 0) has ended with this loss.
  void update(std::int64_t step, double loss, double tokens_per_second) {
    add(step, 0);
    if (!is_due(step)) return;
    begin_line(step, loss);
    std::fprintf(out_, "  %.0f tokens/s", tokens_per_second);
    end_line(step);
  }

  /// Says what happened in a step; where it was made without a trainer, its number and loss.
  void update(step_report const& of) {
    if (is_quiet_) return;
    add(of.step, of.waited);
    if (!is_due(of.step)) return;
    if (each_step_ > 0) {
      std::string const all = epochs_ > 0 ? ext::concat({"/", epochs_}) : std::string{};
      prefix_ = ext::concat({"epoch ", of.step / steps_per_epoch_ + 1, all, "  "});
    }
    begin_line(of.step, of.loss);
    if (each_step_ > 0)
      std::fprintf(out_, "  rate %.3g  %.0f %s  %.0f %% waited", of.learning_rate,
                   each_step_ / seconds_per_step(), unit_, 100 * share_waited());
    std::fputs(memory_.c_str(), out_);
    end_line(of.step);
  }

 private:
  using clock = std::chrono::steady_clock;
  struct mark {
    std::int64_t step = 0;
    clock::time_point at{};
    double waited = 0;  // since the first one
  };
  static constexpr std::size_t window = 100;  // steps

  static bool is_live(progress_lines lines, std::FILE* out) {
    if (lines != progress_lines::as_fits) return lines == progress_lines::live;
    bool const is_under_mpi = std::getenv("OMPI_COMM_WORLD_RANK") != nullptr ||  // Open MPI
                              std::getenv("PMI_RANK") != nullptr;                // MPICH
    return isatty(fileno(out)) != 0 && !is_under_mpi;
  }
  static std::string time_text(double seconds) {
    auto const rounded = static_cast<long long>(seconds + 0.5);
    char text[32];
    if (rounded >= 3600)
      std::snprintf(text, sizeof text, "%lldh%02lldm", rounded / 3600, rounded / 60 % 60);
    else std::snprintf(text, sizeof text, "%lldm%02llds", rounded / 60, rounded % 60);
    return text;
  }

  void add(std::int64_t step, double waited) {
    if (count_ == 0) marks_[count_++] = {step - 1, begin_, 0};
    auto const& before = marks_[(count_ - 1) % marks_.size()];
    marks_[count_ % marks_.size()] = {step, clock::now(), before.waited + waited};
    ++count_;
  }
  [[nodiscard]] mark const& newest() const { return marks_[(count_ - 1) % marks_.size()]; }
  [[nodiscard]] mark const& oldest() const {
    return count_ <= marks_.size() ? marks_[0] : marks_[count_ % marks_.size()];
  }
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(newest().at - oldest().at).count();
  }
  [[nodiscard]] double seconds_per_step() const {
    auto const steps = std::max<std::int64_t>(1, newest().step - oldest().step);
    return std::max(seconds(), 1e-9) / double(steps);
  }
  [[nodiscard]] double share_waited() const {
    return std::min(1.0, (newest().waited - oldest().waited) / std::max(seconds(), 1e-9));
  }

  [[nodiscard]] bool is_last(std::int64_t step) const { return step + 1 == total_; }
  [[nodiscard]] bool is_due(std::int64_t step) {
    auto const now = newest().at;
    if (live_) {
      if (!is_last(step) && step != 0 && now - shown_ < std::chrono::milliseconds(100))
        return false;
    } else if (!is_last(step) &&
               step % std::max<std::int64_t>(1, (total_ > 0 ? total_ : steps_per_epoch_) / 20) !=
                   0) {
      return false;
    }
    shown_ = now;
    return true;
  }
  void begin_line(std::int64_t step, double loss) {
    if (live_) std::fputc('\r', out_);
    if (live_ && total_ > 0) {
      constexpr int width = 24;
      int const filled = int(double(width) * std::min(1.0, double(step + 1) / double(total_)));
      std::fprintf(out_, "[%.*s%*s] ", filled, "========================", width - filled, "");
    }
    std::string const all = total_ > 0 ? ext::concat({"/", total_}) : std::string{};
    std::fprintf(out_, "%sstep %*lld%s  loss %.4f", prefix_.c_str(),
                 total_ > 0 ? int(all.size()) - 1 : 1, static_cast<long long>(step + 1),
                 all.c_str(), loss);
  }
  void end_line(std::int64_t step) {
    if (total_ > 0)
      std::fprintf(out_, "  %s left",
                   time_text(seconds_per_step() * double(total_ - step - 1)).c_str());
    std::fputs(live_ ? "\033[K" : "\n", out_);
    if (live_ && is_last(step)) std::fputc('\n', out_);
    std::fflush(out_);
  }

  std::int64_t total_;  // 0: it goes on for ever
  std::FILE* out_;
  bool live_;
  bool is_quiet_ = false;
  std::int64_t steps_per_epoch_ = 0, epochs_ = 0;
  double each_step_ = 0;  // samples, or tokens
  char const* unit_ = "";
  std::string memory_{}, prefix_{};
  clock::time_point begin_ = clock::now(), shown_{};
  std::array<mark, window + 1> marks_{};
  std::size_t count_ = 0;
};

}  // namespace plait
