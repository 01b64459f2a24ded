// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/doctor/system_files.hpp"

namespace plait::detail::doctor {

/// A line of /proc/self/mountinfo.
struct mount {
  /// `folder`: the folder of the file system that is mounted at `at`, such as "/".
  std::string folder{}, at{}, type{}, options{};
};

/// Reads the lines of a mountinfo file. `path`: the name of the file in the reason why the result
/// is unknown, for example because a line is too short.
[[nodiscard]] reading<std::vector<mount>> mounts_in(std::string const& text,
                                                    std::string const& path);

/// The control groups (cgroups) that limit one resource of this process: processors or memory.
struct group_folders {
  int version = 0;  ///< 1 or 2; 0 if the system has no control groups for this
  /// The folder of the process's own group, then its parent folders, up to the mount.
  std::vector<std::string> folders{};
};

/// Finds the groups of the controller "cpu" or "memory". A system has control groups of version 1,
/// of version 2, or of both. If it has both, each controller belongs to one of the versions.
[[nodiscard]] [[gnu::cold]] reading<group_folders> groups_of(system_files const& files,
                                                             std::string_view controller);

/// The least limit of several groups, and the folder of the group that has this limit.
struct least_limit {
  double value = 0;
  std::string folder{};
};

/// Returns the least quota in processors; infinity if no group has a quota.
[[nodiscard]] [[gnu::cold]] reading<least_limit> least_quota(system_files const& files,
                                                             group_folders const& groups);
/// Returns the least limit in bytes; no_limit if no group has a limit.
[[nodiscard]] [[gnu::cold]] reading<std::uint64_t> least_memory(system_files const& files,
                                                                group_folders const& groups);

}  // namespace plait::detail::doctor

#if PLAIT_HEADER_ONLY
#include "plait/doctor/control_groups.ipp"
#endif
