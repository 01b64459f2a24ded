// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/observe/progress.hpp"

#include <unistd.h>

#include <cstdlib>

#include "plait/core/number_range.hpp"

namespace plait {

PLAIT_DECL progress::progress(std::int64_t total_steps, std::FILE* out, progress_lines lines)
    : total_(total_steps), out_(out), live_(is_live(lines, out)) {
  detail::require_range("progress: total_steps", static_cast<double>(total_steps),
                        number_ranges::at_least_0);
}

PLAIT_DECL void progress::update(std::int64_t step, double loss, double tokens_per_second) {
  add(step, 0);
  if (!is_due(step)) return;
  begin_line(step, loss);
  std::fprintf(out_, "  %.0f tokens/s", tokens_per_second);
  end_line(step);
}

PLAIT_DECL void progress::update(step_report const& of) {
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

PLAIT_DECL bool progress::is_live(progress_lines lines, std::FILE* out) {
  if (lines != progress_lines::as_fits) return lines == progress_lines::live;
  bool const is_under_mpi = std::getenv("OMPI_COMM_WORLD_RANK") != nullptr ||  // set by Open MPI
                            std::getenv("PMI_RANK") != nullptr;                // set by MPICH
  return isatty(fileno(out)) != 0 && !is_under_mpi;
}

PLAIT_DECL std::string progress::time_text(double seconds) {
  auto const rounded = static_cast<long long>(seconds + 0.5);
  char text[32];
  if (rounded >= 3600)
    std::snprintf(text, sizeof text, "%lldh%02lldm", rounded / 3600, rounded / 60 % 60);
  else std::snprintf(text, sizeof text, "%lldm%02llds", rounded / 60, rounded % 60);
  return text;
}

PLAIT_DECL void progress::add(std::int64_t step, double waited) {
  if (count_ == 0) marks_[count_++] = {step - 1, begin_, 0};
  auto const& before = marks_[(count_ - 1) % marks_.size()];
  marks_[count_ % marks_.size()] = {step, clock::now(), before.waited + waited};
  ++count_;
}

PLAIT_DECL double progress::seconds_per_step() const {
  auto const steps = std::max<std::int64_t>(1, newest().step - oldest().step);
  return std::max(seconds(), 1e-9) / double(steps);
}

PLAIT_DECL bool progress::is_due(std::int64_t step) {
  auto const now = newest().at;
  if (live_) {
    if (!is_last(step) && step != 0 && now - shown_ < std::chrono::milliseconds(100)) return false;
  } else if (!is_last(step) &&
             step % std::max<std::int64_t>(1, (total_ > 0 ? total_ : steps_per_epoch_) / 20) != 0) {
    return false;
  }
  shown_ = now;
  return true;
}

PLAIT_DECL void progress::begin_line(std::int64_t step, double loss) {
  if (live_) std::fputc('\r', out_);
  if (live_ && total_ > 0) {
    constexpr int width = 24;
    int const filled = int(double(width) * std::min(1.0, double(step + 1) / double(total_)));
    std::fprintf(out_, "[%.*s%*s] ", filled, "========================", width - filled, "");
  }
  std::string const all = total_ > 0 ? ext::concat({"/", total_}) : std::string{};
  std::fprintf(out_, "%sstep %*lld%s  loss %.4f", prefix_.c_str(),
               total_ > 0 ? int(all.size()) - 1 : 1, static_cast<long long>(step + 1), all.c_str(),
               loss);
}

PLAIT_DECL void progress::end_line(std::int64_t step) {
  if (total_ > 0)
    std::fprintf(out_, "  %s left",
                 time_text(seconds_per_step() * double(total_ - step - 1)).c_str());
  std::fputs(live_ ? "\033[K" : "\n", out_);
  if (live_ && is_last(step)) std::fputc('\n', out_);
  std::fflush(out_);
}

}  // namespace plait
