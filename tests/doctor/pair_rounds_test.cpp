// SPDX-License-Identifier: Apache-2.0
// test: libs=doctor
#include "plait/doctor/pair_rounds.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

using plait::detail::doctor::one_by_one;
using plait::detail::doctor::pair_round;
using plait::detail::doctor::partner_in;
using plait::detail::doctor::rounds_of_job;
using plait::detail::doctor::tournament;

/// Returns all pairs of the rounds. Checks that no rank is in two pairs of a round, that no pair
/// meets twice, and that partner_in() finds both ranks of each pair.
std::set<std::pair<int, int>> pairs_of(std::vector<pair_round> const& rounds) {
  std::set<std::pair<int, int>> out;
  for (auto const& round : rounds) {
    std::set<int> ranks;
    for (auto const& [a, b] : round) {
      EXPECT_LT(a, b);
      EXPECT_TRUE(ranks.insert(a).second) << "rank " << a << " is in two pairs of a round";
      EXPECT_TRUE(ranks.insert(b).second) << "rank " << b << " is in two pairs of a round";
      EXPECT_TRUE(out.emplace(a, b).second) << "the pair " << a << ", " << b << " meets twice";
      EXPECT_EQ(partner_in(round, a), b);
      EXPECT_EQ(partner_in(round, b), a);
    }
  }
  return out;
}

/// Returns the host of each rank, for hosts h0, h1 and so on with these numbers of ranks.
std::vector<std::string> hosts_of(std::vector<int> const& ranks) {
  std::vector<std::string> out;
  for (std::size_t host = 0; host < ranks.size(); ++host)
    out.insert(out.end(), static_cast<std::size_t>(ranks[host]), "h" + std::to_string(host));
  return out;
}

TEST(pair_rounds, each_pair_meets_once) {
  for (int ranks = 0; ranks <= 33; ++ranks) {
    std::vector<int> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    auto const rounds = tournament(all);
    EXPECT_EQ(pairs_of(rounds).size(), static_cast<std::size_t>(ranks * (ranks - 1) / 2));
    EXPECT_EQ(rounds.size(), ranks > 1 ? static_cast<std::size_t>(ranks - 1 + ranks % 2) : 0u);
  }
}

TEST(pair_rounds, all_pairs_of_up_to_64_ranks) {
  auto const hosts = hosts_of({32, 32});
  EXPECT_EQ(pairs_of(rounds_of_job(hosts)).size(), 64u * 63 / 2);
  EXPECT_EQ(rounds_of_job(hosts).size(), 63u);
}

TEST(pair_rounds, more_ranks_meet_within_hosts_and_by_one_rank_of_each_host) {
  auto const hosts = hosts_of({8, 16, 1, 40, 8});
  auto const rounds = rounds_of_job(hosts);
  auto const pairs = pairs_of(rounds);
  std::size_t within = 0, between = 0;
  std::set<int> ranks;
  for (auto const& [a, b] : pairs) {
    bool const is_one_host = hosts[std::size_t(a)] == hosts[std::size_t(b)];
    (is_one_host ? within : between) += 1;
    if (!is_one_host) ranks.insert({a, b});
  }
  EXPECT_EQ(within, 8u * 7 / 2 + 16 * 15 / 2 + 40 * 39 / 2 + 8 * 7 / 2);
  EXPECT_EQ(between, 5u * 4 / 2);
  EXPECT_EQ(ranks, (std::set{0, 8, 24, 25, 65}));
  EXPECT_EQ(rounds.size(), 39u + 5);
}

TEST(pair_rounds, one_by_one) {
  auto const rounds = one_by_one(tournament({0, 1, 2, 3}));
  EXPECT_EQ(rounds.size(), 6u);
  EXPECT_EQ(pairs_of(rounds).size(), 6u);
  EXPECT_EQ(partner_in(rounds[0], 9), -1);
}

}  // namespace
