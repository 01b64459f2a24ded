// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "plait/backend/process/process_engine.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/mesh/groups.hpp"
#include "plait/mesh/hosts.hpp"
#include "plait/policy/tensor_parallel.hpp"

namespace plait::detail {

/// Which process is which rank of the plan, and where it runs; the same on all but for `rank`.
class process_places {
 public:
  /// `hosts` are those of the processes as the launcher numbers them, `process` is this one.
  /// Groups over `local` are to be on one host each, beside those within layers.
  [[gnu::cold]] process_places(mesh const& grid, host_map const& hosts, int process, axis_set local,
                               bool keep_numbers = false)
      : processes_(
            processes_by_rank(grid, hosts, keep_numbers ? axis_set{} : local | axis_within_layers)),
        hosts_(hosts.renumbered(processes_)),
        rank_(static_cast<int>(std::ranges::find(processes_, process) - processes_.begin())) {}

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] host_map const& hosts() const { return hosts_; }

  /// The processes of some ranks.
  [[nodiscard]] std::vector<int> processes(std::vector<int> const& ranks) const {
    std::vector<int> out;
    for (int const rank : ranks) out.push_back(processes_[static_cast<std::size_t>(rank)]);
    return out;
  }
  /// What messages call a group.
  [[nodiscard]] group_names names(std::vector<int> ranks, mesh const& grid, axis_set over) const {
    group_names out{.ranks = std::move(ranks), .axes = to_string(grid.of_several_ranks(over))};
    for (int const one : out.ranks) out.hosts.push_back(hosts_.name_of(one));
    out.member = static_cast<int>(std::ranges::find(out.ranks, rank_) - out.ranks.begin());
    return out;
  }

  /// Errors: input_error on all ranks if groups along one of the axes `local` cross hosts. Rank 0
  ///         warns on standard error of tensor groups that do.
  [[gnu::cold]] void check(mesh const& grid, axis_set local) const {
    for (axis const which : all_axes)
      if (auto const text = crossing(grid, which); local.contains(which) && !text.empty())
        throw input_error({text,
                           "; start as many processes on each host as a whole number of these "
                           "groups has, or leave .require_local out"});
    if (auto const text = crossing(grid, axis_within_layers); rank_ == 0 && !text.empty())
      std::fprintf(stderr, "plait: %s; what they exchange in each layer goes over the network\n",
                   text.c_str());
  }

 private:
  [[nodiscard]] std::string crossing(mesh const& grid, axis which) const {
    auto const found = groups_across_hosts(grid, which, hosts_);
    if (found.empty()) return "";
    std::string names;
    for (auto const& name : hosts_.names()) names += (names.empty() ? "" : ", ") + name;
    return concat({"processes: ", to_string(which), " groups have ranks on several of the hosts ",
                   names, ": ", text_of_groups(found)});
  }

  std::vector<int> processes_;  // of each rank
  host_map hosts_;              // of each rank
  int rank_;
};

}  // namespace plait::detail
