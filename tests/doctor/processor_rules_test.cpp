// SPDX-License-Identifier: Apache-2.0
// test: libs=doctor
#include "plait/doctor/processor_rules.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "doctor/planted_tree.hpp"

namespace {

namespace rules = plait::ext::setting_rules;
using plait::ext::finding;
using plait::ext::finding_severity;
using plait::ext::host_settings;
using plait::ext::reading;

using ranks = std::vector<int>;

// Settings of ranks on one host, without a quota; rank i may run on cpus[i].
std::vector<host_settings> bound_to(std::vector<std::vector<int>> const& cpus,
                                    std::uint64_t threads = 1) {
  static planted::tree const healthy;
  static auto const one = planted::read(healthy, 0, "a");
  std::vector<host_settings> out;
  for (std::size_t i = 0; i < cpus.size(); ++i) {
    out.push_back(one);
    out.back().rank = static_cast<int>(i);
    out.back().process = 1000 + i;
    out.back().cpus = cpus[i];
    out.back().blas_threads = threads;
  }
  return out;
}

TEST(SharedCpu, FindsRanksThatAreBoundToOneCpu) {
  planted::tree const tree;
  tree.plant("/proc/thread-self/status", "Cpus_allowed_list:\t3\n");
  auto const found = rules::shared_cpu({planted::read(tree, 0, "a"), planted::read(tree, 1, "a")});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].text(),
            "ranks 0 and 1 (host a): 2 ranks may use cpu 3 only; expected: a cpu for each rank; "
            "bind each rank to its own cpus, or start fewer ranks on this host");
  EXPECT_EQ(found[0].id, "shared-cpu");
  EXPECT_EQ(found[0].severity, finding_severity::slow);
  // Ranks of different hosts have different cpus.
  EXPECT_TRUE(
      rules::shared_cpu({planted::read(tree, 0, "a"), planted::read(tree, 1, "b")}).empty());
}

TEST(SharedCpu, IsNotFoundIfEachRankCanHaveACpu) {
  EXPECT_TRUE(rules::shared_cpu(bound_to({{0, 1}, {0, 1}})).empty());
  EXPECT_TRUE(rules::shared_cpu(bound_to({{0, 1, 2}, {0}, {0, 1}})).empty());
  EXPECT_TRUE(rules::shared_cpu(bound_to({{5}})).empty());
  EXPECT_TRUE(rules::shared_cpu({}).empty());
}

TEST(SharedCpu, NamesOnlyTheRanksThatTakePart) {
  auto const found = rules::shared_cpu(bound_to({{0}, {7}, {0, 1}, {0, 1}, {2}, {4, 5}, {2}}));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].ranks, (ranks{0, 2, 3}));
  EXPECT_EQ(found[0].measured, "3 ranks may use cpus 0 and 1 only");
  EXPECT_EQ(found[1].ranks, (ranks{4, 6}));
  EXPECT_EQ(found[1].measured, "2 ranks may use cpu 2 only");
}

TEST(SharedCpu, SaysThatTheCpusAreUnknown) {
  planted::tree const tree;
  for (auto const* const text : {"", "Cpus_allowed_list:\n", "Cpus_allowed_list: 3-1\n"}) {
    tree.plant("/proc/thread-self/status", text);
    auto const found = rules::shared_cpu({planted::read(tree, 4, "a")});
    ASSERT_EQ(found.size(), 1u) << text;
    EXPECT_EQ(found[0].severity, finding_severity::note);
    EXPECT_EQ(found[0].ranks, ranks{4});
    EXPECT_NE(found[0].measured.find("not checked (/proc/thread-self/status: garbage: "),
              std::string::npos);
  }
  tree.remove("/proc/thread-self/status");
  EXPECT_EQ(rules::shared_cpu({planted::read(tree, 4, "a")})[0].measured,
            "cpus of a rank: not checked (/proc/thread-self/status: missing)");
}

// Checks Hall's condition for every set of ranks: ranks must share a cpu if and only if some set of
// ranks has fewer cpus than members.
bool must_share(std::vector<std::vector<int>> const& cpus) {
  for (unsigned set = 1; set < 1u << cpus.size(); ++set) {
    std::vector<int> all;
    std::size_t members = 0;
    for (std::size_t i = 0; i < cpus.size(); ++i)
      if ((set >> i & 1) != 0) all.insert(all.end(), cpus[i].begin(), cpus[i].end()), ++members;
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    if (all.size() < members) return true;
  }
  return false;
}

TEST(SharedCpu, AgreesWithACountOfAllSetsOfRanks) {
  std::mt19937 random(7);
  int shared = 0;
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::vector<int>> cpus(1 + random() % 6);
    for (auto& each : cpus)
      while (each.empty())
        for (int cpu = 0; cpu < 6; ++cpu)
          if (random() % 4 == 0) each.push_back(cpu);
    auto const found = rules::shared_cpu(bound_to(cpus));
    EXPECT_EQ(!found.empty(), must_share(cpus));
    shared += found.empty() ? 0 : 1;
    for (auto const& each : found) EXPECT_GE(each.ranks.size(), 2u);
  }
  EXPECT_GT(shared, 200);
  EXPECT_LT(shared, 1800);
}

TEST(BlasThreads, FindsMoreThreadsThanCpus) {
  auto found = rules::blas_threads(bound_to({{0, 1}, {0, 1}}, 2));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].text(),
            "ranks 0 and 1 (host a): 2 ranks with 4 BLAS threads may use cpus 0 and 1 only; "
            "expected: at most 2 threads; set OPENBLAS_NUM_THREADS=1, or bind ranks to more cpus");
  EXPECT_EQ(found[0].id, "blas-threads");
  EXPECT_TRUE(rules::blas_threads(bound_to({{0, 1}, {2, 3}}, 2)).empty());
  EXPECT_TRUE(rules::blas_threads(bound_to({{0, 1}, {0, 1}}, 1)).empty());
  // With one thread for each rank, the ranks share a cpu, which the rule shared_cpu finds.
  EXPECT_TRUE(rules::blas_threads(bound_to({{0}, {0}}, 1)).empty());
  // One rank with more threads than cpus.
  found = rules::blas_threads(bound_to({{0}, {1, 2}}, 2));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].measured, "1 rank with 2 BLAS threads may use cpu 0 only");
  EXPECT_EQ(found[0].expected, "at most 1 thread");
  // The rule is fast for any number of threads.
  EXPECT_EQ(rules::blas_threads(bound_to({{0, 1}}, plait::ext::no_limit)).size(), 1u);
}

TEST(BlasThreads, FindsMoreThreadsThanTheQuota) {
  planted::tree const tree;
  tree.plant("/sys/fs/cgroup/slice/cpu.max", "50000 100000\n");
  auto all = std::vector{planted::read(tree, 0, "a"), planted::read(tree, 1, "a")};
  auto found = rules::blas_threads(all);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].text(),
            "ranks 0 and 1 (host a): 2 ranks with 2 BLAS threads in a control group with a quota "
            "of 0.5 cpus; expected: at most 0.5 threads; raise the quota, use fewer ranks, or set "
            "OPENBLAS_NUM_THREADS=1");
  // On two hosts each rank has a quota of its own.
  all[1].host = "b";
  tree.plant("/sys/fs/cgroup/slice/cpu.max", "100000 100000\n");
  EXPECT_TRUE(
      rules::blas_threads({planted::read(tree, 0, "a"), planted::read(tree, 1, "b")}).empty());
  EXPECT_EQ(rules::blas_threads({planted::read(tree, 0, "a"), planted::read(tree, 1, "a")}).size(),
            1u);
}

TEST(BlasThreads, SaysWhatIsUnknown) {
  auto all = bound_to({{0}, {1}, {2}});
  all[0].blas_threads = reading<std::uint64_t>::unknown("another library");
  all[1].cpus = reading<std::vector<int>>::unknown("no list");
  all[2].quota = reading<plait::ext::cpu_quota>::unknown("no group");
  auto const found = rules::blas_threads(all);
  ASSERT_EQ(found.size(), 3u);
  constexpr char const* whys[]{"another library", "no list", "no group"};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(found[i].severity, finding_severity::note);
    EXPECT_EQ(found[i].ranks, ranks{static_cast<int>(i)});
    EXPECT_EQ(found[i].measured,
              "threads of matrix products: not checked (" + std::string(whys[i]) + ")");
  }
}

TEST(BlasCode, ComparesTheCodeWithTheProcessor) {
  auto all = bound_to({{0}});
  EXPECT_TRUE(rules::blas_code(all).empty());
  all[0].blas_code = std::string("Haswell");
  ASSERT_EQ(rules::blas_code(all).size(), 1u);
  EXPECT_EQ(rules::blas_code(all)[0].expected, "its code for SkylakeX");
  all[0].processor_flags = std::string("avx2 fma");
  EXPECT_TRUE(rules::blas_code(all).empty());
  all[0].blas_code = std::string("Prescott");
  all[0].is_amd = true;
  EXPECT_EQ(rules::blas_code(all)[0].expected, "its code for Zen");
  all[0].processor_flags = std::string("asimd sve");
  EXPECT_TRUE(rules::blas_code(all).empty());
  all[0].blas_code = reading<std::string>::unknown("MKL does not say it");
  EXPECT_EQ(rules::blas_code(all)[0].text(),
            "rank 0 (host a): code of matrix products: not checked (MKL does not say it)");
}

TEST(NumaMemory, NeedsNoNumbersOnOneNode) {
  planted::tree const tree;
  tree.remove("/sys/devices/system/node/node1");
  tree.remove("/proc/self/numa_maps");
  EXPECT_TRUE(rules::numa_memory({planted::read(tree, 0, "a")}).empty());
  tree.remove("/sys/devices/system/node");
  EXPECT_EQ(rules::numa_memory({planted::read(tree, 0, "a")})[0].measured,
            "memory on other NUMA nodes: not checked (/sys/devices/system/node: missing)");
  tree.plant("/sys/devices/system/node/node0/cpulist", "x");
  EXPECT_EQ(rules::numa_memory({planted::read(tree, 0, "a")})[0].severity, finding_severity::note);
}

TEST(NumaMemory, IgnoresLittleMemory) {
  planted::tree const tree;
  tree.plant("/proc/thread-self/status", "Cpus_allowed_list:\t2-3\n");
  auto const with = [&](char const* lines) {
    tree.plant("/proc/self/numa_maps", lines);
    return rules::numa_memory({planted::read(tree, 0, "a")});
  };
  EXPECT_TRUE(with("7f default N0=4000 N1=1 kernelpagesize_kB=4\n").empty());      // 16 MB
  EXPECT_TRUE(with("7f default N0=5000 N1=95000 kernelpagesize_kB=4\n").empty());  // 5 %
  EXPECT_EQ(with("7f default N0=5000 N1=5000 kernelpagesize_kB=4\n").size(), 1u);
  EXPECT_EQ(with("7f default N0=9 N1=1 kernelpagesize_kB=2048\n").size(), 1u);
}

TEST(StealTime, CountsFromAnEarlierReading) {
  planted::tree const tree;
  tree.plant("/proc/stat", "cpu 0 0 0 900 0 0 0 100\n");
  auto const earlier = planted::read(tree, 0, "a");
  EXPECT_EQ(rules::steal_time({earlier}).size(), 1u);
  tree.plant("/proc/stat", "cpu 0 0 0 1900 0 0 0 105\n");
  auto later = planted::read(tree, 0, "a");
  later.count_from(earlier);
  EXPECT_EQ(later.ticks.value(), 1005u);
  EXPECT_EQ(later.stolen_ticks.value(), 5u);
  EXPECT_TRUE(rules::steal_time({later}).empty());
  auto backwards = earlier;
  backwards.count_from(planted::read(tree, 0, "a"));
  EXPECT_EQ(rules::steal_time({backwards})[0].measured,
            "time that the hypervisor gives to other machines: not checked (a counter became "
            "smaller between two readings)");
}

// Ranks read the counters of their host one after the other.
TEST(CommonValues, ThatRanksReadAtDifferentTimesAreOneFinding) {
  planted::tree const tree;
  std::string const stat = "/sys/fs/cgroup/slice/job/cpu.stat";
  tree.plant("/sys/fs/cgroup/slice/job/cpu.max", "200000 100000\n");
  std::vector<host_settings> all;
  for (std::uint64_t i = 0; i < 4; ++i) {
    auto const text = [](std::uint64_t number) { return std::to_string(number); };
    tree.plant("/proc/stat", "cpu 0 0 0 " + text(900 + i) + " 0 0 0 " + text(100 + 2 * i) + "\n");
    tree.plant("/proc/meminfo", "MemTotal: 16777216 kB\nSwapTotal: 1024 kB\nSwapFree: " +
                                    text(512 - 256 * (i % 2)) + " kB\n");
    tree.plant(stat, "nr_periods " + text(100 + i) + "\nnr_throttled " + text(50 + i) + "\n");
    all.push_back(planted::read(tree, int(i), i < 3 ? "a" : "b"));
  }
  auto const expect = [&](std::vector<finding> const& found, std::string const& on_a,
                          std::string const& on_b) {
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(found[0].ranks, (ranks{0, 1, 2}));
    EXPECT_EQ(found[0].host, "a");
    EXPECT_NE(found[0].measured.find(on_a), std::string::npos) << found[0].measured;
    EXPECT_EQ(found[1].ranks, ranks{3});
    EXPECT_EQ(found[1].host, "b");
    EXPECT_NE(found[1].measured.find(on_b), std::string::npos) << found[1].measured;
  };
  expect(rules::steal_time(all), "gave 10.3 % of", "gave 10.5 % of");
  expect(rules::swap(all), "has 768 KiB in swap", "has 768 KiB in swap");
  expect(rules::throttled(all), "in 52 of 102 periods", "in 53 of 103 periods");
  // Control groups are apart, and a rank without a number gets a note.
  all[1].quota.value().group = "/other";
  all[2].stolen_ticks = reading<std::uint64_t>::unknown("why");
  EXPECT_EQ(rules::throttled(all).size(), 3u);
  auto const found = rules::steal_time(all);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].severity, finding_severity::note);
  EXPECT_EQ(found[0].ranks, ranks{2});
  EXPECT_EQ(found[1].ranks, (ranks{0, 1}));
}

TEST(Throttled, CountsFromAnEarlierReading) {
  planted::tree const tree;
  auto const stat = "/sys/fs/cgroup/slice/job/cpu.stat";
  tree.plant("/sys/fs/cgroup/slice/job/cpu.max", "200000 100000\n");
  tree.plant(stat, "nr_periods 100\nnr_throttled 50\n");
  auto const earlier = planted::read(tree, 0, "a");
  EXPECT_EQ(rules::throttled({earlier}).size(), 1u);
  tree.plant(stat, "nr_periods 200\nnr_throttled 50\n");
  auto later = planted::read(tree, 0, "a");
  later.count_from(earlier);
  EXPECT_TRUE(rules::throttled({later}).empty());
}

TEST(MemoryLimit, IsBelowTheMemoryOfTheHost) {
  planted::tree const tree;
  tree.plant("/sys/fs/cgroup/slice/job/memory.max", "17179869184\n");  // all 16 GiB
  EXPECT_TRUE(rules::memory_limit({planted::read(tree, 0, "a")}).empty());
  tree.plant("/sys/fs/cgroup/slice/job/memory.max", "17179869183\n");
  EXPECT_EQ(rules::memory_limit({planted::read(tree, 0, "a")}).size(), 1u);
}

}  // namespace
