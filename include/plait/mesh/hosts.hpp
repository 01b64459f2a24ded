// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/mesh/axis.hpp"
#include "plait/mesh/mesh.hpp"

namespace plait {

/// On which machine each rank runs. Without names, all are on one.
class host_map {
 public:
  host_map() = default;
  /// `names` has that of each rank's host; equal names are one host.
  explicit host_map(std::vector<std::string> names) : names_(std::move(names)) {}

  [[nodiscard]] bool are_known() const { return !names_.empty(); }
  /// "" where nobody knows.
  [[nodiscard]] std::string name_of(int rank) const {
    return names_.empty() ? std::string{} : names_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] bool share_one(std::vector<int> const& ranks) const;
  /// The hosts, in the order of the first rank of each.
  [[nodiscard]] std::vector<std::string> names() const;
  /// The same hosts where rank i is what was rank from[i].
  [[nodiscard]] host_map renumbered(std::vector<int> const& from) const;

 private:
  std::vector<std::string> names_;
};

}  // namespace plait

namespace plait::ext {

/// The groups over `over` whose ranks are not on one host, in the order of their first ranks.
[[nodiscard]] [[gnu::cold]] std::vector<std::vector<int>> groups_across_hosts(
    mesh const& grid, axis_set over, host_map const& hosts);

/// Assigns processes to ranks: groups over `together` are put on one host each, where processes of
/// one host are left that are enough; hosts and processes keep their order, and process 0 is rank
/// 0. `hosts` are those of the processes, in the launcher's order, which stays as it is unless
/// fewer groups cross hosts.
[[nodiscard]] [[gnu::cold]] std::vector<int> processes_by_rank(mesh const& grid,
                                                               host_map const& hosts,
                                                               axis_set together);

/// "{0,2}" or "{0,2}, {1,3} and 14 more"
[[nodiscard]] [[gnu::cold]] std::string text_of_groups(std::vector<std::vector<int>> const& groups);

/// Returns text that lists the ranks of each host and the groups along each axis that cross hosts:
/// "a: ranks 0-3; b: ranks 4-7", and a line for each axis of which groups do.
[[nodiscard]] [[gnu::cold]] std::string explain_hosts(mesh const& grid, host_map const& hosts);

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/mesh/hosts.ipp"
#endif
