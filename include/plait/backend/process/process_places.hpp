// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "plait/backend/process/process_engine.hpp"
#include "plait/core/header_only.hpp"
#include "plait/mesh/groups.hpp"
#include "plait/mesh/hosts.hpp"

namespace plait::detail {

/// Which process is which rank of the plan, and where it runs; the same on all but for `rank`.
class process_places {
 public:
  /// `hosts` are those of the processes as the launcher numbers them, `process` is this one.
  /// Groups over `local` are to be on one host each, beside those within layers.
  [[gnu::cold]] process_places(mesh const& grid, host_map const& hosts, int process, axis_set local,
                               bool keep_numbers = false);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] host_map const& hosts() const { return hosts_; }

  /// The processes of some ranks.
  [[nodiscard]] std::vector<int> processes(std::vector<int> const& ranks) const;
  /// What messages call a group.
  [[nodiscard]] group_names names(std::vector<int> ranks, mesh const& grid, axis_set over) const;

  /// Errors: input_error on all ranks if groups along one of the axes `local` cross hosts. Rank 0
  ///         warns on standard error of tensor groups that do.
  [[gnu::cold]] void check(mesh const& grid, axis_set local) const;

 private:
  [[nodiscard]] std::string crossing(mesh const& grid, axis which) const;

  std::vector<int> processes_;  // of each rank
  host_map hosts_;              // of each rank
  int rank_;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/process/process_places.ipp"
#endif
