// SPDX-License-Identifier: Apache-2.0
// test: libs=doctor
#include "plait/doctor/activity_rules.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace {

using plait::ext::finding;
using plait::ext::finding_severity;
using plait::ext::is_quiet;
using plait::ext::measured_job;
using plait::ext::other_process;
using plait::ext::processor_use;
using plait::ext::reading;
using plait::ext::activity_rules::busy_cpu;

using ranks = std::vector<int>;

processor_use use_of(double others, std::size_t cpus, std::vector<other_process> processes = {}) {
  return {.others = others, .cpus = cpus, .processes = std::move(processes)};
}

// Four ranks on two hosts with a processor each, which others hardly use.
measured_job quiet_job() {
  return {.hosts = {"a", "a", "b", "b"},
          .cpus = {{0}, {1}, {0}, {1}},
          .work = {{.name = "products of float", .together = {10, 10, 10, 10}},
                   {.name = "copies", .together = {3, 3, 3, 3}}},
          .use = {use_of(0, 1), use_of(0.05, 1), use_of(0.01, 1), use_of(0.04, 1)}};
}

TEST(BusyCpu, IsNotFoundOnAQuietMachine) {
  auto const of = quiet_job();
  EXPECT_TRUE(busy_cpu(of).empty());
  EXPECT_TRUE(is_quiet(of));
  EXPECT_TRUE(busy_cpu({}).empty());
}

TEST(BusyCpu, NamesTheProcessAndTheSlowestWork) {
  auto of = quiet_job();
  of.use[1] = use_of(0.98, 1, {{.number = 4711, .name = "stress", .cpus = 0.97, .last_cpu = 1}});
  of.work[0].together = {10, 5.2, 10, 10};
  of.work[1].together = {3, 2.5, 3, 3};
  auto const found = busy_cpu(of);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].text(),
            "rank 1 (host a): other processes use 0.98 of the 1 processor of the rank (cpu 1): "
            "process 4711 'stress' uses 0.97 of cpu 1; products of float at 0.52 of the median of "
            "4 ranks; expected: at most 0.05; end these processes, or bind the ranks to other "
            "processors, and measure again");
  EXPECT_EQ(found[0].id, "busy-cpu");
  EXPECT_EQ(found[0].severity, finding_severity::slow);
  EXPECT_FALSE(is_quiet(of));
  // The work of other ranks does not matter.
  of.work[0].together = {1, 9.1, 10, 10};
  of.work[1].together = {1, 2.8, 3, 3};
  EXPECT_EQ(busy_cpu(of)[0].measured,
            "other processes use 0.98 of the 1 processor of the rank (cpu 1): process 4711 "
            "'stress' uses 0.97 of cpu 1");
}

TEST(BusyCpu, OfTwoRanksIsComparedWithTheFasterOne) {
  auto of = quiet_job();
  of.use[0] = use_of(0.5, 1);
  of.work = {{.name = "copies", .together = {1, 3}}};
  EXPECT_NE(busy_cpu(of)[0].measured.find("; copies at 0.33 of the median of 2 ranks"),
            std::string::npos);
  // Numbers that cannot be speeds are ignored.
  constexpr double infinite = std::numeric_limits<double>::infinity();
  for (auto const& speeds : {std::vector<double>{},
                             {1},
                             {1, 0},
                             {1, -3},
                             {1, infinite},
                             {1, std::numeric_limits<double>::quiet_NaN()},
                             {infinite, 1, 1}}) {
    of.work[0].together = speeds;
    EXPECT_EQ(busy_cpu(of)[0].measured.find("copies"), std::string::npos);
  }
}

TEST(BusyCpu, OfRanksThatShareProcessorsIsOneFinding) {
  auto of = quiet_job();
  of.cpus = {{0, 1, 2}, {2, 3}, {0}, {1}};
  of.use[0] = of.use[1] = use_of(
      2.5, 4, {{.number = 7, .name = "make", .cpus = 2.25, .last_cpu = 3}, {8, "sh", 0.125, 0}});
  of.work[0].together = {8, 5, 10, 10};
  auto const found = busy_cpu(of);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].ranks, (ranks{0, 1}));
  EXPECT_EQ(found[0].host, "a");
  EXPECT_EQ(found[0].measured,
            "other processes use 2.5 of the 4 processors of the ranks (cpus 0-3): process 7 'make' "
            "uses 2.25 processors, process 8 'sh' uses 0.125 of cpu 0; products of float of rank 1 "
            "at 0.5 of the median of 4 ranks");
  EXPECT_EQ(found[0].expected, "at most 0.2");
  // 5 % of all shared processors count.
  of.use[0] = of.use[1] = use_of(0.2, 4);
  EXPECT_TRUE(busy_cpu(of).empty());
}

TEST(BusyCpu, OfRanksWithEqualNumbersMayBeTwoFindings) {
  auto of = quiet_job();
  of.use.assign(4, use_of(0.5, 1));
  auto const found = busy_cpu(of);
  ASSERT_EQ(found.size(), 4u);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(found[std::size_t(i)].ranks, ranks{i});
  EXPECT_EQ(found[1].measured,
            "other processes or virtual machines use 0.5 of the 1 processor of the rank (cpu 1)");
  EXPECT_NE(found[1].what_to_do.find("hypervisor"), std::string::npos);
}

TEST(BusyCpu, SaysThatTheUseIsUnknown) {
  auto of = quiet_job();
  of.use[0].others = of.use[2].others = reading<double>::unknown("/proc/stat: missing");
  of.use[1].others = std::numeric_limits<double>::quiet_NaN();
  of.use[3].cpus = 0;
  auto const found = busy_cpu(of);
  ASSERT_EQ(found.size(), 3u);
  constexpr char const* what = "use of the processors by others: not checked (";
  EXPECT_EQ(found[0], (finding{.id = "busy-cpu",
                               .ranks = {0, 2},
                               .measured = std::string(what) + "/proc/stat: missing)"}));
  EXPECT_EQ(found[1], (finding{.id = "busy-cpu",
                               .ranks = {1},
                               .host = "a",
                               .measured = std::string(what) + "it is not a finite number)"}));
  EXPECT_EQ(found[2], (finding{.id = "busy-cpu",
                               .ranks = {3},
                               .host = "b",
                               .measured = std::string(what) + "the rank has no processors)"}));
}

TEST(BusyCpu, NeedsNoListOfProcessors) {
  auto of = quiet_job();
  of.cpus = {{0}};
  of.hosts.clear();
  of.use[2] = use_of(0.5, 1, {{.number = 1, .name = "\x1b", .cpus = 0.5}});
  auto const found = busy_cpu(of);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].host, "");
  EXPECT_EQ(found[0].measured,
            "other processes use 0.5 of the 1 processor of the rank: process 1 '\\x1b' uses 0.5 of "
            "cpu 0");
}

TEST(Quiet, NeedsTheUseOfEveryRank) {
  EXPECT_FALSE(is_quiet({}));
  for (std::size_t rank = 0; rank < 4; ++rank) {
    auto of = quiet_job();
    of.use[rank].others = 0.0501;
    EXPECT_FALSE(is_quiet(of));
    of.use[rank].others = reading<double>{};
    EXPECT_FALSE(is_quiet(of));
    of.use[rank] = use_of(std::numeric_limits<double>::quiet_NaN(), 1);
    EXPECT_FALSE(is_quiet(of));
    of.use[rank] = use_of(0, 0);
    EXPECT_FALSE(is_quiet(of));
    of.use.erase(of.use.begin());
    EXPECT_FALSE(is_quiet(of));
  }
}

}  // namespace
