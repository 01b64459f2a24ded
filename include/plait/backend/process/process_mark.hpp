// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "plait/core/header_only.hpp"

namespace plait::detail {

/// Which process has written something, so that others can tell whether it is still there and
/// whether it shares the loopback interface with them. As a text it is one line.
struct process_mark {
  std::string pid, start;  ///< of the process; the start tells it from a later one of its number
  std::string boot, pids;  ///< the boot of its kernel and the name space of its number
  std::string host, net;   ///< the host's name and the name space of its interfaces

  enum class state { alive, ended, unknown };

  [[nodiscard]] static process_mark here();

  [[nodiscard]] std::string text() const;
  [[nodiscard]] static process_mark of(std::string_view text);

  /// Whether the process runs; `me` is that which asks.
  [[nodiscard]] state look(process_mark const& me) const;
  /// When a process was started; "" if there is none of this number, or nothing of it but its exit
  /// code.
  [[nodiscard]] static std::string start_of(std::string const& pid);
  /// The number of a process's parent; "" if there is no such process.
  [[nodiscard]] static std::string parent_of(std::string const& pid);
  [[nodiscard]] bool shares_loopback_with(process_mark const& other) const {
    return boot == other.boot && host == other.host && net == other.net;
  }

 private:
  std::array<std::string*, 6> fields() { return {&pid, &start, &boot, &pids, &host, &net}; }

  static std::string first_word(std::string const& path);
  static std::string link(char const* path);
  // Of what /proc/PID/stat says behind the program's name, which may have blanks.
  static std::string field_of_stat(std::string const& all, int index);
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/process/process_mark.ipp"
#endif
