// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "plait/core/header_only.hpp"

namespace plait::detail {

/// Identifies a process, in a file that the process writes, so that other processes can determine
/// if it still runs and if it shares their loopback interface. A pid alone is not enough: the
/// system may use it again, and containers have separate pids. The text of a mark is one line.
struct process_mark {
  /// `start`: start time, which differs for a later process with the same pid.
  std::string pid, start;
  std::string boot, pids;  ///< identifiers of the boot of the kernel and of the pid name space
  std::string host, net;   ///< name of the host, and identifier of the network name space

  enum class state { alive, ended, unknown };

  [[nodiscard]] static process_mark here();

  [[nodiscard]] std::string text() const;
  [[nodiscard]] static process_mark of(std::string_view text);

  /// Returns the state of the process, as far as process `me` can determine it.
  [[nodiscard]] state look(process_mark const& me) const;
  /// Returns the start time of a process; "" if no process has this pid, or if the process is a
  /// zombie.
  [[nodiscard]] static std::string start_of(std::string const& pid);
  /// Returns the pid of a process's parent; "" if no process has this pid.
  [[nodiscard]] static std::string parent_of(std::string const& pid);
  [[nodiscard]] bool shares_loopback_with(process_mark const& other) const {
    return boot == other.boot && host == other.host && net == other.net;
  }

 private:
  std::array<std::string*, 6> fields() { return {&pid, &start, &boot, &pids, &host, &net}; }

  static std::string first_word(std::string const& path);
  static std::string link(char const* path);
  // Returns a field of `all`, the text of /proc/PID/stat: field number `index` after the program's
  // name, which may contain blanks.
  static std::string field_of_stat(std::string const& all, int index);
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/process/process_mark.ipp"
#endif
