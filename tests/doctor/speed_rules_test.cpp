// SPDX-License-Identifier: Apache-2.0
// test: libs=doctor
#include "plait/doctor/speed_rules.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "doctor/planted_speeds.hpp"
#include "plait/core/error.hpp"

namespace {

using plait::ext::better_of;
using plait::ext::check_speeds;
using plait::ext::finding;
using plait::ext::finding_severity;
using plait::ext::measured_job;
using plait::ext::outliers;

using ranks = std::vector<int>;
using rank_pairs = std::vector<std::pair<int, int>>;

struct shape {
  std::size_t ranks, hosts;
};
std::vector<shape> const shapes{{2, 1}, {2, 2}, {4, 1}, {4, 2},  {4, 4},
                                {8, 1}, {8, 2}, {8, 4}, {64, 1}, {64, 4}};

std::string all_text(std::vector<finding> const& of) {
  std::string out;
  for (auto const& each : of) out += each.id + ": " + each.text() + "\n";
  return out;
}

std::vector<std::string> ids(std::vector<finding> const& of) {
  std::vector<std::string> out;
  for (auto const& each : of) out.push_back(each.id);
  return out;
}

std::string message(auto const& call) {
  try {
    (void)call();
  } catch (plait::input_error const& problem) {
    return problem.what();
  }
  return "no error";
}

TEST(SpeedRules, FindNothingInHealthyJobs) {
  for (auto const& [of, hosts] : shapes) {
    unsigned const seeds = of < 8 ? 1000 : of < 64 ? 200 : 10;
    for (unsigned seed = 0; seed < seeds; ++seed) {
      auto const job = planted::speeds(of, hosts, 0.05, 0.1, seed);
      ASSERT_EQ(all_text(check_speeds(job)), "") << of << " " << hosts << " " << seed;
      ASSERT_TRUE(outliers(job.links, job.hosts).empty());
    }
  }
}

TEST(SpeedRules, FindNothingIfNothingWasMeasured) {
  EXPECT_TRUE(check_speeds({}).empty());
  EXPECT_TRUE(outliers({}, {}).empty());
  EXPECT_TRUE(check_speeds({.hosts = {"a", "b"}}).empty());
  EXPECT_TRUE(outliers({}, {"a", "b"}).empty());
  auto job = planted::speeds(4, 2);
  for (auto& work : job.work) {
    work.together.assign(4, 0);
    work.together[1] = 1e10;  // There is no other rank to compare it with.
  }
  for (auto& row : job.links.bytes_per_second) row.assign(4, 0);
  for (auto& row : job.links.latency_seconds) row.assign(4, 0);
  job.links.bytes_per_second[0][1] = 1;  // One pair of each kind.
  job.links.bytes_per_second[0][2] = 1e9;
  job.turns.assign(4, {});
  for (auto& work : job.work) work.alone.clear();
  EXPECT_EQ(all_text(check_speeds(job)), "");
}

TEST(SlowRank, NamesTheSlowestKindOfWorkFirst) {
  for (auto const& [of, hosts] : shapes) {
    auto job = planted::speeds(of, hosts, 0.005, 0, 3);
    std::size_t const slow = of - 1;
    job.work[0].together[slow] = 0.85 * 6e10;
    job.work[1].together[slow] = 0.62 * 6e10;
    for (auto& work : job.work) work.alone.clear();
    auto const found = check_speeds(job);
    ASSERT_EQ(ids(found), std::vector<std::string>{"slow-rank"}) << of << " " << hosts;
    EXPECT_EQ(found[0].ranks, ranks{static_cast<int>(slow)});
    EXPECT_EQ(found[0].host, job.hosts.back());
    EXPECT_EQ(found[0].severity, finding_severity::slow);
    EXPECT_EQ(found[0].measured, "the optimizer at 0.62 of the median of " + std::to_string(of) +
                                     " ranks (products of float 0.85) on cpu " +
                                     std::to_string(of / hosts - 1));
    EXPECT_EQ(found[0].expected, "at least 0.9");
    // The limit.
    job.work[1].together[slow] = 0.92 * 6e10;
    job.work[0].together[slow] = 0.92 * 6e10;
    EXPECT_EQ(all_text(check_speeds(job)), "");
  }
}

TEST(SlowRank, ComparesWithTheMedianOfTheRanksThatWereMeasured) {
  // example-begin speeds
  plait::ext::measured_job job;
  job.hosts = {"a", "a", "b", "b"};
  job.work.push_back({.name = "products of float", .together = {61e9, 60e9, 38e9, 62e9}});
  auto const found = plait::ext::check_speeds(job);
  // rank 2 (host b): products of float at 0.62 of the median of 4 ranks; expected: at least
  // 0.9; look for other programs on its cpus, a lower clock, or a quota
  std::string const sentence = found[0].text();
  // example-end
  EXPECT_EQ(sentence,
            "rank 2 (host b): products of float at 0.62 of the median of 4 ranks; expected: at "
            "least 0.9; look for other programs on its cpus, a lower clock, or a quota");
  EXPECT_EQ(found.size(), 1u);
  // Half of the ranks are slow.
  job.work[0].together = {30, 100, 31, 101};
  EXPECT_EQ(check_speeds(job).size(), 2u);
  job.work[0].together = {30, 100, 31, 0};
  EXPECT_EQ(check_speeds(job).size(), 0u);
  job.work[0].together = {0, 100, 31, 101};
  EXPECT_EQ(check_speeds(job).at(0).measured, "products of float at 0.31 of the median of 3 ranks");
}

TEST(SlowTogether, FindsAHost) {
  for (auto const& [of, hosts] : shapes) {
    auto job = planted::speeds(of, hosts, 0.005, 0, 4);
    std::vector<int> expected;
    for (std::size_t rank = 0; rank < of; ++rank) {
      if (job.hosts[rank] != job.hosts[0]) continue;
      job.work[0].alone[rank] = 2.5 * job.work[0].together[rank];
      // Work that the memory limits is not compared.
      job.work[2].alone[rank] = 5 * job.work[2].together[rank];
      expected.push_back(static_cast<int>(rank));
    }
    auto const found = check_speeds(job);
    ASSERT_EQ(ids(found), std::vector<std::string>{"slow-together"}) << all_text(found);
    EXPECT_EQ(found[0].ranks, expected);
    EXPECT_EQ(found[0].host, "a");
    EXPECT_EQ(found[0].measured,
              "products of float at 0.4 of the speed that the slowest rank has alone");
  }
  auto job = planted::speeds(8, 4);
  for (auto& each : job.work[0].alone) each *= 2;
  auto const found = check_speeds(job);
  ASSERT_EQ(found.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(found[i].host, job.hosts[2 * i]);
}

TEST(SlowPair, FindsBothDirectionsOrOne) {
  for (auto const& [of, hosts] : shapes) {
    auto job = planted::speeds(of, hosts);
    std::size_t const a = of - 2, b = of - 1;
    planted::slow_down(job, 2.5, true, [&](auto from, auto to) { return from == b && to == a; });
    if (of == 2) {  // There is no other pair.
      EXPECT_TRUE(outliers(job.links, job.hosts).empty());
      EXPECT_EQ(all_text(check_speeds(job)), "");
      continue;
    }
    EXPECT_EQ(outliers(job.links, job.hosts),
              (rank_pairs{{static_cast<int>(b), static_cast<int>(a)}}));
    auto found = check_speeds(job);
    ASSERT_EQ(ids(found), std::vector<std::string>{"slow-pair"}) << of << " " << hosts;
    EXPECT_EQ(found[0].ranks, (ranks{static_cast<int>(a), static_cast<int>(b)}));
    EXPECT_NE(found[0].measured.find("sends to rank " + std::to_string(a)), std::string::npos);
    job = planted::speeds(of, hosts, 0, 0.02);
    planted::slow_down(job, 2.5, true,
                       [&](auto from, auto to) { return from + to == a + b && from >= a; });
    if (of == 4 && hosts == 2) continue;  // The only pair within a host.
    found = check_speeds(job);
    ASSERT_EQ(ids(found), std::vector<std::string>{"slow-pair"}) << all_text(found);
    EXPECT_NE(found[0].measured.find(", and receives from it, at "), std::string::npos);
    EXPECT_EQ(outliers(job.links, job.hosts).size(), 2u);
  }
}

TEST(SlowPair, NamesHostsCpusAndNumbers) {
  auto job = planted::speeds(8, 2);
  planted::slow_down(job, 2.5, true, [](auto from, auto to) { return from == 1 && to == 6; });
  auto found = check_speeds(job);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].text(),
            "ranks 1 and 6: rank 1 (host a, cpu 1) sends to rank 6 (host b, cpu 2) at 480 MB/s, "
            "0.4 of the median (while no other pair sends: 480 MB/s, 0.4 of the median); expected: "
            "1.2 GB/s, the median bandwidth between hosts; check the network interfaces of these "
            "hosts, their cables and the ports of the switch");
  EXPECT_EQ(found[0].host, "");
  job = planted::speeds(8, 2);
  job.links.latency_seconds[2][1] = 40e-6;
  found = check_speeds(job);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].text(),
            "ranks 1 and 2 (host a): rank 2 (cpu 2) sends to rank 1 (cpu 1) with a latency of 40 "
            "us, 8 times the median; expected: 5 us, the median latency within hosts; look for "
            "other programs on the cpus of these ranks, and bind each rank to its own cpus");
  planted::slow_down(job, 4, true, [](auto from, auto to) { return from == 2 && to == 1; });
  EXPECT_EQ(check_speeds(job).at(0).measured,
            "rank 2 (cpu 2) sends to rank 1 (cpu 1) at 2 GB/s, 0.25 of the median (while no other "
            "pair sends: 2 GB/s, 0.25 of the median), and with a latency of 40 us, 8 times the "
            "median (while no other pair sends: 40 us, 8 times the median)");
}

TEST(SlowPair, HasLimits) {
  auto const with = [](double rate, double latency) {
    auto job = planted::speeds(8, 2);
    job.links.bytes_per_second[0][1] *= rate;
    job.links.latency_seconds[0][1] += latency;
    return check_speeds(job).size();
  };
  EXPECT_EQ(with(0.79, 0), 1u);
  EXPECT_EQ(with(0.81, 0), 0u);
  // A latency of three times the median that is only 9.9 us greater is normal.
  EXPECT_EQ(with(1, 9.9e-6), 0u);
  EXPECT_EQ(with(1, 10.1e-6), 1u);
  // A limit of 1 / 0.8 of the median.
  auto job = planted::speeds(8, 2);
  job.links.latency_seconds[0][7] = 1.24 * planted::between_latency;
  EXPECT_EQ(all_text(check_speeds(job)), "");
  job.links.latency_seconds[0][7] = 1.26 * planted::between_latency;
  EXPECT_EQ(check_speeds(job).size(), 1u);
}

TEST(SlowPair, OfSocketsIsNotFound) {
  // Two sockets of 4 ranks: pairs between sockets have 0.7 of the bandwidth, and twice the latency.
  auto job = planted::speeds(8, 1);
  planted::slow_down(job, 1 / 0.7, true, [](auto a, auto b) { return a / 4 != b / 4; });
  for (std::size_t a = 0; a < 8; ++a)
    for (std::size_t b = 0; b < 8; ++b)
      if (a / 4 != b / 4) job.links.latency_seconds[a][b] *= 2;
  EXPECT_EQ(all_text(check_speeds(job)), "");
}

TEST(SlowPair, OfOneRankIsOneFinding) {
  for (auto const& [of, hosts] : shapes) {
    if (of / hosts < 3) continue;
    auto job = planted::speeds(of, hosts, 0, 0.05, 5);
    planted::slow_down(job, 3, true, [](auto a, auto b) { return a == 1 || b == 1; });
    auto const found = check_speeds(job);
    ASSERT_EQ(ids(found), std::vector<std::string>{"slow-pair"}) << all_text(found);
    EXPECT_EQ(found[0].ranks, ranks{1});
    EXPECT_EQ(found[0].measured.find(
                  "all " + std::to_string(of - 1) + " pairs of this rank (cpu 1) and " +
                  (hosts == 1 ? "the host's other ranks" : "other ranks") + ": the slowest at "),
              0u)
        << found[0].measured;
  }
  // Only the pairs with other hosts.
  auto job = planted::speeds(8, 2);
  planted::slow_down(job, 3, true,
                     [](auto a, auto b) { return a / 4 != b / 4 && (a == 1 || b == 1); });
  auto const found = check_speeds(job);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].measured.find("all 4 pairs of this rank (cpu 1) and ranks of other hosts:"),
            0u);
}

TEST(SlowPair, OfThreeRanksIsFound) {
  // Two of three pairs are slow, so a median of all pairs would be slow, too.
  for (std::size_t const hosts : {1u, 3u}) {
    auto job = planted::speeds(3, hosts);
    planted::slow_down(job, 3, true, [](auto a, auto b) { return a == 2 || b == 2; });
    auto const found = check_speeds(job);
    ASSERT_EQ(ids(found), std::vector<std::string>{hosts == 1 ? "slow-pair" : "slow-host"});
    EXPECT_EQ(found[0].ranks, ranks{2});
  }
}

TEST(SharedLink, IsFineAlone) {
  for (auto const& [of, hosts] : shapes) {
    if (of / hosts < 3) continue;
    auto job = planted::speeds(of, hosts, 0, 0.05, 6);
    planted::slow_down(job, 3, false, [&](auto a, auto b) { return a + b == 3; });
    auto const found = check_speeds(job);
    ASSERT_EQ(ids(found), std::vector<std::string>{"shared-link"}) << all_text(found);
    EXPECT_EQ(found[0].ranks, (ranks{0, 1, 2, 3}));
    EXPECT_EQ(found[0].host, "a");
    EXPECT_NE(found[0].measured.find("shared by 4 ranks of the host"), std::string::npos);
  }
}

TEST(SharedLink, OfAHostCountsItsRanks) {
  auto job = planted::speeds(16, 4, 0, 0.05);
  auto const is_of_c = [&](auto a) { return job.hosts[a] == "c"; };
  planted::slow_down(job, 4, false, [&](auto a, auto b) { return is_of_c(a) != is_of_c(b); });
  auto found = check_speeds(job);
  ASSERT_EQ(ids(found), std::vector<std::string>{"shared-link"}) << all_text(found);
  EXPECT_EQ(found[0].host, "c");
  EXPECT_EQ(found[0].ranks, (ranks{8, 9, 10, 11}));
  EXPECT_EQ(found[0].measured.find("all 48 pairs of this host and other hosts: the slowest at "),
            0u);
  EXPECT_NE(found[0].measured.find(", shared by 4 ranks of a host"), std::string::npos);
  // Two ranks of host a and three of host b.
  job = planted::speeds(16, 4);
  planted::slow_down(job, 4, false, [&](auto a, auto b) { return a < 2 && b >= 4 && b < 7; });
  found = check_speeds(job);
  ASSERT_EQ(ids(found), std::vector<std::string>{"shared-link"});
  EXPECT_EQ(found[0].text(),
            "ranks 0, 1 and 4-6: 6 of 16 pairs between hosts a and b: the slowest at 300 MB/s, "
            "0.25 of the median (while no other pair sends: 1.2 GB/s, 1 of the median), shared by "
            "2 ranks of a host; expected: 1.2 GB/s, the median bandwidth between hosts; compare "
            "the network interfaces of the hosts and their links to the switch, or use fewer ranks "
            "on a host");
}

TEST(SharedLink, OfARankIsOneFinding) {
  auto job = planted::speeds(16, 4, 0, 0.05);
  planted::slow_down(job, 3, false, [](auto a, auto b) { return a == 13 || b == 13; });
  auto const found = check_speeds(job);
  ASSERT_EQ(ids(found), std::vector<std::string>{"shared-link"}) << all_text(found);
  EXPECT_EQ(found[0].ranks, ranks{13});
  EXPECT_NE(found[0].measured.find(", shared with other pairs"), std::string::npos);
}

TEST(SlowHost, ReplacesItsPairs) {
  for (auto const& [of, hosts] : shapes) {
    if (hosts < 4) continue;
    auto job = planted::speeds(of, hosts, 0, 0.05, 7);
    // All pairs of host b and other hosts.
    auto const is_of_b = [&](auto a) { return job.hosts[a] == "b"; };
    planted::slow_down(job, 3, true, [&](auto a, auto b) { return is_of_b(a) != is_of_b(b); });
    auto found = check_speeds(job);
    ASSERT_EQ(ids(found), std::vector<std::string>{"slow-host"}) << all_text(found);
    EXPECT_EQ(found[0].host, "b");
    EXPECT_EQ(found[0].ranks.size(), of / hosts);
    auto const pairs = of / hosts * (of - of / hosts);
    EXPECT_EQ(found[0].measured.find("all " + std::to_string(pairs) +
                                     " pairs of this host and other hosts: the slowest at "),
              0u);
    // All pairs of hosts b and c.
    if (of == hosts) continue;
    job = planted::speeds(of, hosts, 0, 0.05, 8);
    auto const is_of = [&](auto a, char const* host) { return job.hosts[a] == host; };
    planted::slow_down(job, 3, true, [&](auto a, auto b) {
      return (is_of(a, "b") && is_of(b, "c")) || (is_of(a, "c") && is_of(b, "b"));
    });
    found = check_speeds(job);
    ASSERT_EQ(ids(found), std::vector<std::string>{"slow-host"}) << all_text(found);
    EXPECT_EQ(found[0].host, "");
    EXPECT_EQ(found[0].ranks.size(), 2 * of / hosts);
    EXPECT_EQ(found[0].measured.find("all " + std::to_string(of / hosts * (of / hosts)) +
                                     " pairs between hosts b and c: "),
              0u);
  }
}

TEST(SlowHost, IsFoundAmongThreeHosts) {
  auto job = planted::speeds(6, 3, 0, 0.05);
  planted::slow_down(job, 3, true, [&](auto a, auto b) { return (a < 2) != (b < 2); });
  auto const found = check_speeds(job);
  ASSERT_EQ(ids(found), std::vector<std::string>{"slow-host"}) << all_text(found);
  EXPECT_EQ(found[0].ranks, (ranks{0, 1}));
}

TEST(SlowHost, FindsAllPairsWithinAHost) {
  for (auto const& [of, hosts] : shapes) {
    if (of / hosts < 3 || hosts < 2) continue;
    auto job = planted::speeds(of, hosts, 0, 0.05, 9);
    planted::slow_down(job, 3, true,
                       [&](auto a, auto b) { return job.hosts[a] == "b" && job.hosts[b] == "b"; });
    auto const found = check_speeds(job);
    ASSERT_EQ(ids(found), std::vector<std::string>{"slow-host"}) << all_text(found);
    EXPECT_EQ(found[0].host, "b");
    EXPECT_NE(found[0].measured.find(" pairs within this host: the slowest at "),
              std::string::npos);
  }
}

TEST(SlowLinks, CoverEachSlowPairAndNoOther) {
  // Random slow pairs: each is in a finding, and a finding of a rank or host has no fine pair.
  std::mt19937 random(11);
  for (int i = 0; i < 300; ++i) {
    auto const [of, hosts] = shapes[3 + random() % 5];
    auto job = planted::speeds(of, hosts);
    std::set<std::pair<std::size_t, std::size_t>> slow;
    for (std::size_t n = 0; n < of / 2; ++n) {
      auto const a = random() % of, b = random() % of;
      if (a != b) slow.emplace(std::min(a, b), std::max(a, b));
    }
    planted::slow_down(job, 3, true, [&](auto a, auto b) {
      return slow.contains({std::min(a, b), std::max(a, b)});
    });
    auto const found = check_speeds(job);
    for (auto const& [from, to] : outliers(job.links, job.hosts)) {
      EXPECT_TRUE(slow.contains({std::min(from, to), std::max(from, to)}));
      EXPECT_TRUE(std::any_of(found.begin(), found.end(), [&, f = from, t = to](auto const& each) {
        auto const has = [&](int rank) {
          return std::find(each.ranks.begin(), each.ranks.end(), rank) != each.ranks.end();
        };
        return each.ranks.size() == 1 || each.host != "" ? has(f) || has(t) : has(f) && has(t);
      })) << all_text(found);
    }
  }
}

TEST(Unsteady, FindsLostTime) {
  auto job = planted::speeds(8, 2);
  job.turns[3].lost = 0.12;
  auto const found = check_speeds(job);
  ASSERT_EQ(ids(found), std::vector<std::string>{"unsteady"});
  EXPECT_EQ(found[0].text(),
            "rank 3 (host a): turns of equal work on cpu 3 take 2 ms in the median and up to 2.4 "
            "ms, and 12 % of the time is lost in longer turns; expected: at most 10 % lost; look "
            "for other programs on its cpus, interrupts, or a changing clock");
  job.turns[3].lost = 0.1;
  EXPECT_EQ(all_text(check_speeds(job)), "");
}

TEST(BetterOf, KeepsWhatIsSlowBothTimes) {
  for (auto const& [of, hosts] : shapes) {
    auto const healthy = planted::speeds(of, hosts, 0.02, 0.05, 1);
    auto const again = planted::speeds(of, hosts, 0.02, 0.05, 2);
    auto first = healthy, second = again;
    first.work[0].together[0] *= 0.5;  // a disturbance of the first measurement
    second.work[1].together[1] *= 0.5;
    first.turns[1].lost = 0.5;
    if (of > 2) {
      first.links.bytes_per_second[0][1] *= 0.3;
      second.links.latency_seconds[1][0] += 1e-3;
    }
    EXPECT_FALSE(check_speeds(first).empty());
    EXPECT_FALSE(check_speeds(second).empty());
    EXPECT_EQ(all_text(check_speeds(better_of(first, second))), "");
    EXPECT_EQ(all_text(check_speeds(better_of(second, first))), "");
    // A rank that is slow both times.
    first.work[2].together[of - 1] *= 0.6;
    second.work[2].together[of - 1] *= 0.6;
    auto const found = check_speeds(better_of(first, second));
    ASSERT_EQ(ids(found), std::vector<std::string>{"slow-rank"}) << all_text(found);
    EXPECT_EQ(found[0].ranks, ranks{static_cast<int>(of) - 1});
  }
}

TEST(BetterOf, TakesWhatOnlyOneHas) {
  auto const job = planted::speeds(4, 2, 0.02, 0.05, 1);
  plait::ext::measured_job none;
  none.hosts = job.hosts;
  none.cpus = job.cpus;
  EXPECT_EQ(better_of(job, none), job);
  EXPECT_EQ(better_of(none, job), job);
  auto busy = job;
  busy.use.resize(4);
  busy.use[1].others = 0.5;
  EXPECT_EQ(better_of(job, busy).use, busy.use);
  EXPECT_EQ(better_of(busy, busy), busy);
}

TEST(SpeedRules, RefuseListsThatDoNotFit) {
  auto const healthy = planted::speeds(4, 2);
  auto const after = [&](auto const& change) {
    auto job = healthy;
    change(job);
    return message([&] { return check_speeds(job); });
  };
  EXPECT_EQ(after([](auto& job) { job.work[1].together.pop_back(); }),
            "measured_job: work[1].together has 3 elements, and hosts has 4; give one for each "
            "rank, or none");
  EXPECT_EQ(after([](auto& job) { job.work[1].alone.push_back(1); }),
            "measured_job: work[1].alone has 5 elements, and hosts has 4; give one for each rank, "
            "or none");
  EXPECT_EQ(after([](auto& job) { job.turns.pop_back(); }),
            "measured_job: turns has 3 elements, and hosts has 4; give one for each rank, or none");
  EXPECT_EQ(after([](auto& job) { job.cpus.pop_back(); }),
            "measured_job: cpus has 3 elements, and hosts has 4; give one for each rank, or none");
  EXPECT_EQ(after([](auto& job) { job.hosts.clear(); }),
            "measured_job: cpus has 4 elements, and hosts has 0; give one for each rank, or none");
  EXPECT_EQ(after([](auto& job) { job.links.latency_seconds.pop_back(); }),
            "measured_job: links.latency_seconds has 3 rows, and hosts has 4; give one for each "
            "rank, or none");
  EXPECT_EQ(after([](auto& job) { job.links.bytes_alone_per_second[2].resize(7); }),
            "measured_job: links.bytes_alone_per_second[2] has 7 columns, and hosts has 4; give "
            "one for each rank, or none");
  EXPECT_EQ(after([](auto& job) { job.links.bytes_per_second[2][1] = -1; }),
            "measured_job::links.bytes_per_second[2][1] is -1; it must be a finite number from 0 "
            "on");
  for (double const bad : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_NE(after([&](auto& job) { job.work[0].together[3] = bad; }), "no error");
    EXPECT_NE(after([&](auto& job) { job.work[0].alone[3] = bad; }), "no error");
    EXPECT_NE(after([&](auto& job) { job.turns[1].lost = bad; }), "no error");
    EXPECT_NE(after([&](auto& job) { job.turns[1].median_seconds = bad; }), "no error");
    EXPECT_NE(after([&](auto& job) { job.turns[1].longest_seconds = bad; }), "no error");
    EXPECT_NE(after([&](auto& job) { job.links.latency_alone_seconds[0][3] = bad; }), "no error");
  }
  EXPECT_NE(message([&] { return outliers(healthy.links, {"a"}); }), "no error");
  EXPECT_EQ(after([](auto&) {}), "no error");
}

}  // namespace
