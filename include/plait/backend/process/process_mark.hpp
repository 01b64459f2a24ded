// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "plait/core/header_only.hpp"

namespace plait::detail {

/// Identifies the process that has written something, so that other processes can tell if it still
/// runs and if it shares their loopback interface. A pid alone would not do: it may be used again,
/// and containers count theirs separately. The text of a mark is one line.
struct process_mark {
  std::string pid, start;  ///< `start` tells it from a later process of this pid
  std::string boot, pids;  ///< the boot of its kernel and its pid name space
  std::string host, net;   ///< the host's name and the network name space

  enum class state { alive, ended, unknown };

  [[nodiscard]] static process_mark here();

  [[nodiscard]] std::string text() const;
  [[nodiscard]] static process_mark of(std::string_view text);

  /// Tells if the process runs; `me` is the asking process.
  [[nodiscard]] state look(process_mark const& me) const;
  /// The start time of a process; "" if no process has this pid, or only an exit code of it is
  /// left.
  [[nodiscard]] static std::string start_of(std::string const& pid);
  /// The pid of a process's parent; "" if there is no such process.
  [[nodiscard]] static std::string parent_of(std::string const& pid);
  [[nodiscard]] bool shares_loopback_with(process_mark const& other) const {
    return boot == other.boot && host == other.host && net == other.net;
  }

 private:
  std::array<std::string*, 6> fields() { return {&pid, &start, &boot, &pids, &host, &net}; }

  static std::string first_word(std::string const& path);
  static std::string link(char const* path);
  // Returns a field of /proc/PID/stat after the program's name, which may contain blanks.
  static std::string field_of_stat(std::string const& all, int index);
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/process/process_mark.ipp"
#endif
