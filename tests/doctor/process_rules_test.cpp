// SPDX-License-Identifier: Apache-2.0
// test: libs=doctor
#include "plait/doctor/process_rules.hpp"

#include <gtest/gtest.h>

#include <limits>
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

// Four ranks, two on host "a" and two on host "b".
std::vector<host_settings> four() {
  static planted::tree const healthy;
  std::vector<host_settings> out;
  for (int i = 0; i < 4; ++i) out.push_back(planted::read(healthy, i, i < 2 ? "a" : "b"));
  return out;
}

struct version {
  std::vector<finding> (*rule)(std::vector<host_settings> const&);
  reading<std::string> host_settings::* member;
  char const *id, *what;
  finding_severity severity;
};

constexpr version versions[]{{rules::unlike_plait, &host_settings::plait, "unlike-plait",
                              "version of plait", finding_severity::fails},
                             {rules::unlike_build, &host_settings::build, "unlike-build",
                              "compiler and its flags", finding_severity::slow},
                             {rules::unlike_blas, &host_settings::blas, "unlike-blas",
                              "library of matrix products", finding_severity::slow},
                             {rules::unlike_mpi, &host_settings::mpi, "unlike-mpi",
                              "version of MPI", finding_severity::fails},
                             {rules::unlike_nccl, &host_settings::nccl, "unlike-nccl",
                              "version of NCCL", finding_severity::fails},
                             {rules::unlike_cuda, &host_settings::cuda, "unlike-cuda",
                              "version of CUDA", finding_severity::slow},
                             {rules::unlike_driver, &host_settings::driver, "unlike-driver",
                              "version of NVIDIA's driver", finding_severity::slow}};

TEST(Versions, AreComparedWithTheVersionOfMostRanks) {
  for (auto const& each : versions) {
    SCOPED_TRACE(each.id);
    auto all = four();
    for (auto& rank : all) rank.*each.member = std::string("1.2");
    EXPECT_TRUE(each.rule(all).empty());
    all[0].*each.member = std::string("1.1");
    auto const found = each.rule(all);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].id, each.id);
    EXPECT_EQ(found[0].severity, each.severity);
    EXPECT_EQ(found[0].ranks, ranks{0});
    EXPECT_EQ(found[0].host, "a");
    EXPECT_EQ(found[0].measured, std::string(each.what) + ": '1.1'");
    EXPECT_EQ(found[0].expected, "'1.2', as on ranks 1-3");
    EXPECT_FALSE(found[0].what_to_do.empty());
  }
}

TEST(Versions, OfEquallyManyRanksTheLowerRankIsRight) {
  auto all = four();
  for (auto& rank : all) rank.mpi = std::string(rank.rank < 2 ? "5" : "4");
  std::swap(all[0], all[3]);  // the order of the list does not matter
  auto const found = rules::unlike_mpi(all);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].text(),
            "ranks 2 and 3 (host b): version of MPI: '4'; expected: '5', as on ranks 0 and 1; "
            "install one version on all hosts");
}

TEST(Versions, ThatAreUnknownAreNotes) {
  for (auto const& each : versions) {
    SCOPED_TRACE(each.id);
    auto all = four();
    for (auto& rank : all) rank.*each.member = std::string("1.2");
    all[1].*each.member = reading<std::string>::unknown("no answer");
    all[3].*each.member = reading<std::string>::unknown("no answer");
    auto const found = each.rule(all);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].severity, finding_severity::note);
    EXPECT_EQ(found[0].measured, std::string(each.what) + ": not checked (no answer)");
    EXPECT_EQ(found[0].ranks, (ranks{1, 3}));
    EXPECT_EQ(found[0].host, "");  // they are on two hosts
    EXPECT_TRUE(each.rule({}).empty());
  }
}

TEST(Versions, TheCodeOfTheBlasCounts) {
  auto all = four();
  all[2].blas_code = std::string("Haswell");
  auto const found = rules::unlike_blas(all);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(
      found[0].text(),
      "rank 2 (host b): code of matrix products: 'Haswell'; expected: 'SkylakeX', as on "
      "ranks 0, 1 and 3; set one OPENBLAS_CORETYPE on all hosts, so that all ranks compute the "
      "same bits");
  EXPECT_EQ(found[0].id, "unlike-blas");
  EXPECT_EQ(found[0].severity, finding_severity::slow);
}

TEST(Versions, OfTheBlasAreComparedIfSomeRanksDoNotKnowTheirCode) {
  auto all = four();
  for (auto const rank : {0u, 1u, 2u}) all[rank].blas_code = reading<std::string>::unknown("MKL");
  auto found = rules::unlike_blas(all);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].severity, finding_severity::note);
  EXPECT_EQ(found[0].ranks, (ranks{0, 1, 2}));
  EXPECT_EQ(found[0].measured, "code of matrix products: not checked (MKL)");
  // Versions are compared all the same.
  all[2].blas = std::string("0.3.25");
  found = rules::unlike_blas(all);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].ranks, ranks{2});
  EXPECT_EQ(found[0].measured, "library of matrix products: '0.3.25'");
  // If no rank knows its code, the rule blas-code says so.
  all = four();
  for (auto& each : all) each.blas_code = reading<std::string>::unknown("MKL");
  EXPECT_TRUE(rules::unlike_blas(all).empty());
}

TEST(Clock, IsComparedBetweenHosts) {
  auto all = four();
  all[2].clock_s = all[3].clock_s = 1e9 + 0.9;
  EXPECT_TRUE(rules::unlike_clock(all).empty());
  all[2].clock_s = all[3].clock_s = 1e9 + 90;
  auto found = rules::unlike_clock(all);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].text(),
            "ranks 2 and 3 (host b): the host's clock is 90 s fast; expected: within 1 s of the "
            "other hosts; let NTP or chrony set the clocks; certificates and logs need the time");
  EXPECT_EQ(found[0].id, "unlike-clock");
  // With three hosts, the median is the time of two of them.
  all[0].host = "c";
  all[0].clock_s = 1e9 + 90.5;
  found = rules::unlike_clock(all);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].ranks, ranks{1});
  EXPECT_EQ(found[0].measured, "the host's clock is 90 s slow");
  all[3].clock_s = reading<double>{};
  all[2].clock_s = std::numeric_limits<double>::quiet_NaN();
  found = rules::unlike_clock({all[2], all[3]});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].severity, finding_severity::note);
  EXPECT_EQ(found[1].measured, "clock of the host: not checked (not read)");
}

TEST(SharedMemory, NeedsSpaceForEachProcessOfAHost) {
  constexpr std::uint64_t mib = 1024 * 1024;
  auto all = four();
  for (auto& each : all)
    each.shared_memory = plait::ext::file_system_space{.bytes = 64 * mib, .free_bytes = 32 * mib};
  EXPECT_TRUE(rules::shared_memory(all).empty());
  all[2].shared_memory.value().free_bytes = all[3].shared_memory.value().free_bytes = 31 * mib;
  auto const found = rules::shared_memory(all);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].text(),
            "ranks 2 and 3 (host b): /dev/shm has 31 MiB free of 64 MiB for 2 processes; expected: "
            "at least 32 MiB; start the container with more, for example `docker run "
            "--shm-size=1g`, or remove files that ended jobs left in /dev/shm");
  EXPECT_EQ(found[0].severity, finding_severity::fails);
  all[3].process = all[2].process;  // two threads of one process
  EXPECT_TRUE(rules::shared_memory(all).empty());
}

TEST(SharedMemory, ThatIsMissingIsANote) {
  planted::tree const tree;
  tree.remove("/dev/shm");
  auto of = plait::ext::read_host_settings(tree.files(), {.rank = 3, .host = "a"});
  EXPECT_EQ(rules::shared_memory({of})[0].text(),
            "rank 3 (host a): space of /dev/shm: not checked (/dev/shm: missing)");
}

TEST(Loopback, IsRightOnOneHost) {
  auto all = four();
  for (auto& each : all) each.interface = std::string("lo");
  EXPECT_EQ(rules::loopback(all).size(), 2u);  // one for each host
  for (auto& each : all) each.host = "a";
  EXPECT_TRUE(rules::loopback(all).empty());
  EXPECT_TRUE(rules::loopback({}).empty());
}

TEST(Interfaces, AreNamedByTheProgramOrByTheDefaultRoute) {
  planted::tree const tree;
  auto const read = [&](char const* name) {
    return plait::ext::read_host_settings(tree.files(), {.interface = name});
  };
  EXPECT_EQ(read("").interface.value(), "eth0");  // its route has the lower metric
  EXPECT_EQ(read("lo").interface.value(), "lo");
  auto all = four();
  all[1].interface = std::string("ib9");
  auto const found = rules::unlike_mtu(all);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].text(),
            "rank 1 (host a): size of packets (MTU): not checked (the host has no interface "
            "'ib9')");
  // Interfaces of ranks on one host do not matter.
  EXPECT_TRUE(rules::unlike_mtu({all[0], all[1]}).empty());
  EXPECT_TRUE(rules::unlike_speed({all[0], all[1]}).empty());
}

TEST(Interfaces, WithoutASpeedAreNotes) {
  planted::tree const tree;
  tree.plant("/sys/class/net/eth0/speed", "-1\n");
  auto const found =
      rules::unlike_speed({planted::read(tree, 0, "a"), planted::read(tree, 1, "b")});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].ranks, (ranks{0, 1}));
  EXPECT_EQ(found[0].measured,
            "speed of the network interface: not checked (/sys/class/net/eth0/speed: not known "
            "to the driver)");
}

TEST(LockedMemory, HasNoLimitOnlyForRdma) {
  planted::tree const tree;
  tree.plant("/proc/self/limits", "Max open files 65536\nMax locked memory 65536 65536 bytes\n");
  EXPECT_EQ(rules::locked_memory({planted::read(tree, 0, "a")}).size(), 1u);
  tree.remove("/sys/class/infiniband");
  EXPECT_TRUE(rules::locked_memory({planted::read(tree, 0, "a")}).empty());
  tree.remove("/sys/class");
  EXPECT_EQ(rules::locked_memory({planted::read(tree, 0, "a")})[0].measured,
            "limit of locked memory: not checked (/sys/class/infiniband: missing)");
}

TEST(OpenFiles, GrowWithTheProcesses) {
  auto all = four();
  for (auto& each : all) each.most_open_files = std::uint64_t{128 + 4 * 8};
  EXPECT_TRUE(rules::open_files(all).empty());
  all[2].most_open_files = std::uint64_t{128 + 4 * 8 - 1};
  auto const found = rules::open_files(all);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].ranks, ranks{2});
  EXPECT_EQ(found[0].expected, "at least 160 for 4 processes");
}

}  // namespace
