// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "plait/backend/process/process_engine.hpp"
#include "plait/core/header_only.hpp"
#include "plait/mesh/groups.hpp"
#include "plait/mesh/hosts.hpp"

namespace plait::detail {

/// Maps ranks of the plan to processes and hosts. A launcher may number processes round robin over
/// hosts: with 2 hosts and tensor groups of 2, the group of processes 0 and 1 would then exchange
/// activations over the network in each layer. This map therefore assigns ranks to processes in an
/// order in which each such group is on one host, if there is such an order. All processes compute
/// the same map; only rank() differs.
class process_places {
 public:
  /// `hosts`: the hosts of the processes, in the launcher's order; `process`: the number of this
  /// process. Groups within layers and groups over the axes `local` are to be on one host each.
  /// `keep_numbers`: ranks equal process numbers.
  [[gnu::cold]] process_places(mesh const& grid, host_map const& hosts, int process, axis_set local,
                               bool keep_numbers = false);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] host_map const& hosts() const { return hosts_; }

  /// Returns the numbers of the processes that have these ranks.
  [[nodiscard]] std::vector<int> processes(std::vector<int> const& ranks) const;
  /// Returns the names by which messages describe a group.
  [[nodiscard]] group_names names(std::vector<int> ranks, mesh const& grid, axis_set over) const;

  /// Checks that no group along an axis of `local` crosses hosts; throws input_error on all ranks
  /// if one does. If tensor groups cross hosts, rank 0 prints a warning to standard error.
  [[gnu::cold]] void check(mesh const& grid, axis_set local) const;

 private:
  [[nodiscard]] std::string crossing(mesh const& grid, axis which) const;

  std::vector<int> processes_;  // indexed by rank
  host_map hosts_;              // indexed by rank
  int rank_;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/process/process_places.ipp"
#endif
