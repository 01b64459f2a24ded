// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <string>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::detail::doctor {

/// Shows the part of the measurement that is under way, with a bar, on standard error if that is a
/// terminal. Only the rank that prints shows anything.
class doctor_progress {
 public:
  /// `parts`: the number of calls of begin() that are expected.
  doctor_progress(int parts, bool prints, std::FILE* out = stderr);
  doctor_progress(doctor_progress const&) = delete;
  doctor_progress& operator=(doctor_progress const&) = delete;
  ~doctor_progress() { end(); }

  void begin(std::string const& part);
  /// Removes the bar.
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
