// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <string>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::detail::doctor {

/// Shows the current part of the measurement, and a bar for the parts that are done, on standard
/// error. If standard error is not a terminal, or the rank does not print, it shows nothing.
class doctor_progress {
 public:
  /// `parts`: the expected number of parts; after more parts, the bar remains full.
  doctor_progress(int parts, bool prints, std::FILE* out = stderr);
  doctor_progress(doctor_progress const&) = delete;
  doctor_progress& operator=(doctor_progress const&) = delete;
  ~doctor_progress() { end(); }

  /// Shows that a part begins, and that the previous part is done.
  void begin(std::string const& part);
  /// Removes the line from the terminal.
  void end();

 private:
  std::FILE* out_;
  int parts_, begun_ = 0;
  bool is_shown_;
};

}  // namespace plait::detail::doctor

#if PLAIT_HEADER_ONLY
#include "plait/doctor/doctor_progress.ipp"
#endif
