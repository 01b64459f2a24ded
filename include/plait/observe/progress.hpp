// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "plait/core/number_range.hpp"

namespace plait {

/// The way in which progress is shown.
enum class progress_lines : int {
  /// Live on a terminal, plain otherwise. Plain under MPI's launchers: mpirun gives ranks terminals
  /// of its own, and what they write may go to a file.
  as_fits,
  live,  ///< one line that is written over again and again
  plain  ///< about twenty lines
};

/// Shows how far a training is: step, loss, tokens per second, time left.
///
/// Threads: used by one thread, that of the root rank.
class progress {
 public:
  /// Errors: input_error if `total_steps` is negative.
  explicit progress(std::int64_t total_steps, std::FILE* out = stdout,
                    progress_lines lines = progress_lines::as_fits)
      : total_(total_steps), out_(out), live_(is_live(lines, out)) {
    detail::require_range("progress: total_steps", static_cast<double>(total_steps),
                          number_ranges::at_least_0);
  }

  /// Says that step `step` (from 0) has ended with this loss.
  void update(std::int64_t step, double loss, double tokens_per_second) {
    auto const now = clock::now();
    bool const last = step + 1 == total_;
    if (live_) {
      if (!last && step != 0 && now - shown_ < std::chrono::milliseconds(100)) return;
    } else if (!last && step % std::max<std::int64_t>(1, total_ / 20) != 0) {
      return;
    }
    shown_ = now;
    double const seconds = std::chrono::duration<double>(now - begin_).count();
    double const left = seconds / double(step + 1) * double(total_ - step - 1);
    if (live_) {
      constexpr int width = 24;
      int const filled = int(double(width) * std::min(1.0, double(step + 1) / double(total_)));
      std::fprintf(out_, "\r[%.*s%*s] ", filled, "========================", width - filled, "");
    }
    std::fprintf(out_, "step %*lld/%lld  loss %.4f  %.0f tokens/s  %s left%s",
                 int(std::to_string(total_).size()), static_cast<long long>(step + 1),
                 static_cast<long long>(total_), loss, tokens_per_second, time_text(left).c_str(),
                 live_ ? "\033[K" : "\n");
    if (live_ && last) std::fputc('\n', out_);
    std::fflush(out_);
  }

 private:
  using clock = std::chrono::steady_clock;

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

  std::int64_t total_;
  std::FILE* out_;
  bool live_;
  clock::time_point begin_ = clock::now(), shown_{};
};

}  // namespace plait
