// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/mesh/hosts.hpp"

#include <algorithm>
#include <numeric>

#include "plait/core/concat.hpp"
#include "plait/mesh/ranks_text.hpp"

namespace plait {

PLAIT_DECL bool host_map::share_one(std::vector<int> const& ranks) const {
  return names_.empty() || std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
           return name_of(rank) == name_of(ranks.front());
         });
}

PLAIT_DECL std::vector<std::string> host_map::names() const {
  std::vector<std::string> out;
  for (auto const& name : names_)
    if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
  return out;
}

PLAIT_DECL host_map host_map::renumbered(std::vector<int> const& from) const {
  std::vector<std::string> out;
  for (int const rank : from) out.push_back(name_of(rank));
  return names_.empty() ? host_map{} : host_map{std::move(out)};
}

}  // namespace plait

namespace plait::ext {

PLAIT_DECL std::vector<std::vector<int>> groups_across_hosts(mesh const& grid, axis_set over,
                                                             host_map const& hosts) {
  std::vector<std::vector<int>> out;
  for (int rank = 0; rank < grid.world_size(); ++rank)
    if (auto members = grid.group_of(rank, over);
        members.front() == rank && !hosts.share_one(members))
      out.push_back(std::move(members));
  return out;
}

PLAIT_DECL std::vector<int> processes_by_rank(mesh const& grid, host_map const& hosts,
                                              axis_set together) {
  auto const crossing = [&](host_map const& where) {
    return groups_across_hosts(grid, together, where).size();
  };
  std::vector<int> as_launched(static_cast<std::size_t>(grid.world_size()));
  std::iota(as_launched.begin(), as_launched.end(), 0);
  if (crossing(hosts) == 0) return as_launched;

  std::vector<std::vector<int>> left;  // for each host, its processes without a rank
  for (auto const& name : hosts.names()) {
    left.emplace_back();
    for (int const process : as_launched)
      if (hosts.name_of(process) == name) left.back().push_back(process);
  }
  std::vector<int> out(as_launched.size(), -1);
  auto const fill = [&](std::vector<int> const& group, std::vector<int>& from) {
    for (std::size_t i = 0; i < group.size(); ++i) out[std::size_t(group[i])] = from[i];
    from.erase(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(group.size()));
  };
  std::vector<std::vector<int>> homeless;
  for (int rank = 0; rank < grid.world_size(); ++rank) {
    auto group = grid.group_of(rank, together);
    if (group.front() != rank) continue;
    auto home = std::find_if(left.begin(), left.end(), [&](auto const& processes) {
      return processes.size() >= group.size();
    });
    // Process 0 stays rank 0. If the host of process 0 has too few processes for the group, the
    // group crosses hosts in any case.
    if (rank == 0 && home != left.begin()) home = left.end();
    if (home != left.end()) fill(group, *home);
    else homeless.push_back(std::move(group));
  }
  std::vector<int> rest;
  for (auto const& processes : left) rest.insert(rest.end(), processes.begin(), processes.end());
  for (auto const& group : homeless) fill(group, rest);
  return crossing(hosts.renumbered(out)) < crossing(hosts) ? out : as_launched;
}

PLAIT_DECL std::string text_of_groups(std::vector<std::vector<int>> const& groups) {
  constexpr std::size_t most = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(most, groups.size()); ++i)
    text += (i == 0 ? "" : ", ") + ranks_in_braces(groups[i]);
  if (groups.size() > most) text += concat({" and ", groups.size() - most, " more"});
  return text;
}

PLAIT_DECL std::string explain_hosts(mesh const& grid, host_map const& hosts) {
  std::string text;
  for (auto const& name : hosts.names()) {
    std::vector<int> ranks;
    for (int rank = 0; rank < grid.world_size(); ++rank)
      if (hosts.name_of(rank) == name) ranks.push_back(rank);
    text += concat({"  ", name, ": ", ranks_text(ranks), "\n"});
  }
  for (int i = 0; i < grid.dimension_count; ++i) {
    auto const which = grid.dimensions[static_cast<std::size_t>(i)].which;
    if (auto const groups = groups_across_hosts(grid, which, hosts); !groups.empty())
      text += concat(
          {"  ", to_string(which), " groups that cross hosts: ", text_of_groups(groups), "\n"});
  }
  return text;
}

}  // namespace plait::ext
