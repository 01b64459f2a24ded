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
  /// `folder`: the folder of the file system that is visible at `at`; "/" for all of it.
  std::string folder{}, at{}, type{}, options{};
};

/// Reads the lines of a mountinfo; a line that is too short is garbage.
[[nodiscard]] reading<std::vector<mount>> mounts_in(std::string const& text,
                                                    std::string const& path);

/// The control groups (cgroups) that limit this process in one respect.
struct group_folders {
  int version = 0;  ///< 1 or 2; 0 if the system has no control groups for this
  /// The folder of the process's own group first, then the folders above it, up to the mount.
  std::vector<std::string> folders{};
};

/// Finds the groups of the controller "cpu" or "memory". The system has version 1, version 2, or
/// both, in which case a controller belongs to one of them.
[[nodiscard]] [[gnu::cold]] reading<group_folders> groups_of(system_files const& files,
                                                             std::string_view controller);

/// The least limit over a list of groups, and the folder of the group that has it.
struct least_limit {
  double value = 0;
  std::string folder{};
};

/// Returns the least quota in processors; infinite without a quota.
[[nodiscard]] [[gnu::cold]] reading<least_limit> least_quota(system_files const& files,
                                                             group_folders const& groups);
/// Returns the least limit in bytes; no_limit without a limit.
[[nodiscard]] [[gnu::cold]] reading<std::uint64_t> least_memory(system_files const& files,
                                                                group_folders const& groups);

}  // namespace plait::detail::doctor

#if PLAIT_HEADER_ONLY
#include "plait/doctor/control_groups.ipp"
#endif
