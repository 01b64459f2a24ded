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

/// The host on which each rank runs. If the names of the hosts are not known, all ranks count as
/// ranks of one host.
class host_map {
 public:
  host_map() = default;
  /// `names[i]` is the name of the host of rank i; ranks with equal names are on one host.
  explicit host_map(std::vector<std::string> names) : names_(std::move(names)) {}

  [[nodiscard]] bool are_known() const { return !names_.empty(); }
  /// The name of a rank's host; "" if the names are not known.
  [[nodiscard]] std::string name_of(int rank) const {
    return names_.empty() ? std::string{} : names_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] bool share_one(std::vector<int> const& ranks) const;
  /// The hosts, in the order of the first rank of each.
  [[nodiscard]] std::vector<std::string> names() const;
  /// Returns a map with other rank numbers: its rank i is rank from[i] of this map.
  [[nodiscard]] host_map renumbered(std::vector<int> const& from) const;

 private:
  std::vector<std::string> names_;
};

}  // namespace plait

namespace plait::ext {

/// Returns those groups over the axes `over` whose ranks are on several hosts, in the order of
/// their first ranks.
[[nodiscard]] [[gnu::cold]] std::vector<std::vector<int>> groups_across_hosts(
    mesh const& grid, axis_set over, host_map const& hosts);

/// Returns, for each rank, the process that becomes this rank. The order is such that each group
/// over `together` runs on one host, as long as a host has enough processes left. Hosts and
/// processes keep their order, and process 0 is rank 0. `hosts` has the host of each process in the
/// launcher's order. If this order does not have fewer groups that cross hosts than the launcher's
/// order, the function returns the launcher's order.
[[nodiscard]] [[gnu::cold]] std::vector<int> processes_by_rank(mesh const& grid,
                                                               host_map const& hosts,
                                                               axis_set together);

/// Returns groups as text: "{0,2}" or "{0,2}, {1,3} and 14 more".
[[nodiscard]] [[gnu::cold]] std::string text_of_groups(std::vector<std::vector<int>> const& groups);

/// Returns text that lists the ranks of each host, "a: ranks 0-3; b: ranks 4-7", and for each axis
/// the groups that cross hosts.
[[nodiscard]] [[gnu::cold]] std::string explain_hosts(mesh const& grid, host_map const& hosts);

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/mesh/hosts.ipp"
#endif
