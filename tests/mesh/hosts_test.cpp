// SPDX-License-Identifier: Apache-2.0
#include "plait/mesh/hosts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace {

using plait::axis;
using plait::host_map;
using plait::ext::mesh;

mesh mesh_of(std::vector<std::pair<axis, int>> const& axes) {
  mesh out;
  for (auto const& [which, size] : axes) out.add(which, size);
  return out;
}
/// "aabb": the host of each process.
host_map hosts_of(std::string const& letters) {
  std::vector<std::string> names;
  for (char const letter : letters) names.emplace_back(1, letter);
  return host_map(names);
}
std::size_t crossing(mesh const& grid, host_map const& hosts) {
  return groups_across_hosts(grid, axis::tensor, hosts).size();
}

TEST(Hosts, GroupsAcrossHosts) {
  auto const grid = mesh_of({{axis::data, 2}, {axis::tensor, 2}});
  EXPECT_EQ(crossing(grid, {}), 0u);
  EXPECT_EQ(crossing(grid, hosts_of("aaaa")), 0u);
  EXPECT_EQ(crossing(grid, hosts_of("aabb")), 0u);
  EXPECT_EQ(groups_across_hosts(grid, axis::data, hosts_of("aabb")),
            (std::vector<std::vector<int>>{{0, 2}, {1, 3}}));
  EXPECT_EQ(groups_across_hosts(grid, axis::tensor, hosts_of("aaab")),
            (std::vector<std::vector<int>>{{2, 3}}));
}

TEST(Hosts, AnOrderThatCrossesNothingStays) {
  auto const grid = mesh_of({{axis::data, 2}, {axis::tensor, 2}});
  for (auto const* const letters : {"aabb", "bbaa", "aaaa"})
    EXPECT_EQ(processes_by_rank(grid, hosts_of(letters), axis::tensor),
              (std::vector<int>{0, 1, 2, 3}))
        << letters;
}

TEST(Hosts, ProcessesByTurnsAreBroughtTogether) {
  auto const grid = mesh_of({{axis::data, 2}, {axis::tensor, 2}});
  EXPECT_EQ(processes_by_rank(grid, hosts_of("abab"), axis::tensor),
            (std::vector<int>{0, 2, 1, 3}));
  // The tensor axis need not be the fastest.
  auto const slow = mesh_of({{axis::tensor, 2}, {axis::data, 2}});
  EXPECT_EQ(processes_by_rank(slow, hosts_of("aabb"), axis::tensor),
            (std::vector<int>{0, 2, 1, 3}));
  EXPECT_EQ(crossing(slow, hosts_of("aabb").renumbered({0, 2, 1, 3})), 0u);
}

TEST(Hosts, AGroupThatFitsNowhereStays) {
  auto const grid = mesh_of({{axis::tensor, 4}});
  EXPECT_EQ(processes_by_rank(grid, hosts_of("abab"), axis::tensor),
            (std::vector<int>{0, 1, 2, 3}));
}

TEST(Hosts, AnyOrderIsAPermutationThatCrossesNoMore) {
  std::mt19937 random(7);
  int better = 0;
  for (int round = 0; round < 300; ++round) {
    auto const size = [&] { return int(random() % 3) + 1; };
    auto const grid =
        mesh_of({{axis::stage, size()}, {axis::tensor, size()}, {axis::data, size()}});
    std::string letters;
    for (int i = 0; i < grid.world_size(); ++i) letters += char('a' + random() % 3);
    auto const hosts = hosts_of(letters);
    auto const order = processes_by_rank(grid, hosts, axis::tensor);
    EXPECT_EQ(order[0], 0) << letters;
    auto sorted = order;
    std::ranges::sort(sorted);
    for (int i = 0; i < grid.world_size(); ++i) EXPECT_EQ(sorted[std::size_t(i)], i);
    EXPECT_LE(crossing(grid, hosts.renumbered(order)), crossing(grid, hosts));
    better += crossing(grid, hosts.renumbered(order)) < crossing(grid, hosts);
    // If every host has a whole number of tensor groups, no group crosses hosts.
    auto const tensor = std::size_t(grid.size(axis::tensor));
    bool fits = true;
    for (char const host : {'a', 'b', 'c'})
      fits = fits && std::size_t(std::ranges::count(letters, host)) % tensor == 0;
    if (fits) {
      EXPECT_EQ(crossing(grid, hosts.renumbered(order)), 0u) << letters;
    }
  }
  EXPECT_GT(better, 50);
}

TEST(Hosts, Text) {
  auto const grid = mesh_of({{axis::data, 2}, {axis::tensor, 2}});
  EXPECT_EQ(explain_hosts(grid, hosts_of("aaba")),
            "  a: ranks 0, 1 and 3\n  b: rank 2\n  data groups that cross hosts: {0,2}\n  tensor "
            "groups that cross hosts: {2,3}\n");
}

}  // namespace
