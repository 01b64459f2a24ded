// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/doctor/doctor_progress.hpp"

#include <algorithm>

#include <unistd.h>

namespace plait::detail::doctor {

PLAIT_DECL doctor_progress::doctor_progress(int parts, bool prints, std::FILE* out)
    : out_(out), parts_(std::max(1, parts)), is_shown_(prints && ::isatty(::fileno(out)) == 1) {}

PLAIT_DECL void doctor_progress::begin(std::string const& part) {
  if (!is_shown_) return;
  constexpr int width = 24;
  int const filled = std::min(width, begun_ * width / parts_);
  ++begun_;
  std::string const bar =
      std::string(std::size_t(filled), '#') + std::string(std::size_t(width - filled), '.');
  std::fprintf(out_, "\r\033[K[%s] %s", bar.c_str(), part.c_str());
  std::fflush(out_);
}

PLAIT_DECL void doctor_progress::end() {
  if (is_shown_ && begun_ > 0) {
    std::fprintf(out_, "\r\033[K");
    std::fflush(out_);
  }
  begun_ = 0;
}

}  // namespace plait::detail::doctor
