// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/process/process_places.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"

namespace plait::detail {

PLAIT_DECL process_places::process_places(mesh const& grid, host_map const& hosts, int process,
                                          axis_set local, bool keep_numbers)
    : processes_(processes_by_rank(grid, hosts, keep_numbers ? axis_set{} : local | model_axes)),
      hosts_(hosts.renumbered(processes_)),
      rank_(static_cast<int>(std::ranges::find(processes_, process) - processes_.begin())) {}

PLAIT_DECL std::vector<int> process_places::processes(std::vector<int> const& ranks) const {
  std::vector<int> out;
  for (int const rank : ranks) out.push_back(processes_[static_cast<std::size_t>(rank)]);
  return out;
}

PLAIT_DECL group_names process_places::names(std::vector<int> ranks, mesh const& grid,
                                             axis_set over) const {
  group_names out{.ranks = std::move(ranks), .axes = to_string(grid.of_several_ranks(over))};
  for (int const one : out.ranks) out.hosts.push_back(hosts_.name_of(one));
  out.member = static_cast<int>(std::ranges::find(out.ranks, rank_) - out.ranks.begin());
  return out;
}

PLAIT_DECL void process_places::check(mesh const& grid, axis_set local) const {
  for (axis const which : all_axes)
    if (auto const text = crossing(grid, which); local.contains(which) && !text.empty())
      throw input_error({text,
                         "; start a multiple of the size of these groups as processes on each "
                         "host, or leave .require_local out"});
  if (auto const text = crossing(grid, grid.model_axis()); rank_ == 0 && !text.empty())
    std::fprintf(stderr,
                 "plait: %s; the values that they exchange in each layer go over the network\n",
                 text.c_str());
}

PLAIT_DECL std::string process_places::crossing(mesh const& grid, axis which) const {
  auto const found = groups_across_hosts(grid, which, hosts_);
  if (found.empty()) return "";
  std::string names;
  for (auto const& name : hosts_.names()) names += (names.empty() ? "" : ", ") + name;
  return concat({"processes: ", to_string(which), " groups have ranks on several of the hosts ",
                 names, ": ", text_of_groups(found)});
}

}  // namespace plait::detail
