// SPDX-License-Identifier: Apache-2.0
// test: libs=doctor
#include "plait/doctor/setting_rules.hpp"

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

using rule_function = std::vector<finding> (*)(std::vector<host_settings> const&);

/// A fault of a machine, the files that show the fault, and the finding that a rule must return.
struct fault {
  rule_function rule;
  std::string id;
  std::vector<planted::file> files;  ///< the files of a machine with the fault
  std::string file;                  ///< a file that the rule needs
  finding_severity severity;
  std::string measured, expected, what_to_do;
  /// A text that the kernel never writes to the file. In files that may contain any word, such as
  /// the name of a governor, it is an empty line.
  std::string garbage = "\xff\x01 no text of a kernel";
  std::vector<planted::file> on_both{};  ///< files of the machine without the fault, too
};

std::string const group = "/sys/fs/cgroup/slice/job/";

std::vector<fault> const& faults() {
  static std::vector<fault> const all{
      {rules::blas_code,
       "blas-code",
       {{"/proc/cpuinfo",
         "vendor_id\t: GenuineIntel\nmodel name\t: Newer\nflags\t\t: avx2 fma avx512f avx512dq "
         "avx512bw avx512vl amx_bf16\n"}},
       "/proc/cpuinfo",
       finding_severity::slow,
       "OpenBLAS runs its code for 'Prescott' on the processor 'Newer'",
       "its code for SkylakeX",
       "set OPENBLAS_CORETYPE=SkylakeX, or install an OpenBLAS that knows this processor"},
      {rules::throttled,
       "throttled",
       {{group + "cpu.stat", "nr_periods 100\nnr_throttled 30\nthrottled_usec 9\n"}},
       group + "cpu.stat",
       finding_severity::slow,
       "the control group '/sys/fs/cgroup/slice/job' was stopped in 30 of 100 periods, because "
       "its quota of processor time was used up",
       "0",
       "raise the quota, or use fewer threads",
       "nr_periods x\n",
       {{group + "cpu.max", "200000 100000\n"}}},
      {rules::throttled,
       "throttled",
       {{group + "cpu.stat", "nr_periods 1000\nnr_throttled 1\n"}},
       group + "cpu.max",
       finding_severity::note,
       "the control group '/sys/fs/cgroup/slice/job' was stopped in 1 of 1000 periods, because "
       "its quota of processor time was used up",
       "0",
       "raise the quota, or use fewer threads",
       "0 0\n",
       {{group + "cpu.max", "200000 100000\n"}}},
      {rules::governor,
       "governor",
       {{"/sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "powersave\n"}},
       "/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor",
       finding_severity::slow,
       "the clock governor of the processors is 'powersave'",
       "'performance'",
       "run `cpupower frequency-set -g performance` as root",
       "\n"},
      {rules::steal_time,
       "steal-time",
       {{"/proc/stat", "cpu  100 0 100 700 0 0 0 100 0 0\n"}},
       "/proc/stat",
       finding_severity::slow,
       "the hypervisor gave 10 % of the processors' time to other machines (steal)",
       "below 1 %",
       "use a host whose processors are not shared"},
      {rules::swap,
       "swap",
       {{"/proc/self/status", "VmSwap:\t    2048 kB\n"}},
       "/proc/self/status",
       finding_severity::slow,
       "2 MiB of the process are in swap",
       "0",
       "use less memory on this host, or end other programs"},
      {rules::swap,
       "swap",
       {{"/proc/meminfo", "MemTotal: 16777216 kB\nSwapTotal: 1024 kB\nSwapFree: 512 kB\n"}},
       "/proc/meminfo",
       finding_severity::note,
       "the host has 512 KiB in swap",
       "0",
       "look for a program that needs too much memory"},
      {rules::numa_memory,
       "numa-memory",
       {{"/proc/thread-self/status", "Cpus_allowed_list:\t0-1\n"},
        {"/proc/self/numa_maps",
         "7f00 default anon=1 N0=10240 N1=30720 kernelpagesize_kB=4\n7f01 default\n"}},
       "/proc/self/numa_maps",
       finding_severity::slow,
       "75 % of the process's memory is on NUMA node 1, but the rank runs on cpus 0 and 1",
       "memory on the nodes of these cpus",
       "bind the rank to cpus and memory of one node when it starts, for example with `numactl "
       "--cpunodebind=0 --membind=0`"},
      {rules::memory_limit,
       "memory-limit",
       {{"/sys/fs/cgroup/slice/memory.max", "8589934592\n"}},
       "/sys/fs/cgroup/slice/memory.max",
       finding_severity::note,
       "the control group may use 8 GiB of memory",
       "16 GiB, the host's memory",
       "raise the limit if the job needs more; a process above it is killed"},
      {rules::unlike_driver,
       "unlike-driver",
       {{"/sys/module/nvidia/version", "535.1\n"}},
       "/sys/module/nvidia/version",
       finding_severity::slow,
       "version of NVIDIA's driver: '535.1'",
       "'550.54.14', as on rank 0",
       "install one version on all hosts",
       "\n"},
      {rules::loopback,
       "loopback",
       {{"/proc/net/route", "Iface\nlo 00000000 0 0 0 0 1 00000000\n"}},
       "/proc/net/route",
       finding_severity::fails,
       "the job uses the loopback interface 'lo'",
       "an interface that other hosts can reach",
       "name one, for example by GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME, and see that "
       "/etc/hosts does not map the host's name to 127.0.0.1"},
      {rules::loopback,
       "loopback",
       {{"/sys/class/net/eth0/flags", "0x100b\n"}},
       "/sys/class/net/eth0/flags",
       finding_severity::fails,
       "the job uses the loopback interface 'eth0'",
       "an interface that other hosts can reach",
       "name one, for example by GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME, and see that "
       "/etc/hosts does not map the host's name to 127.0.0.1"},
      {rules::unlike_mtu,
       "unlike-mtu",
       {{"/sys/class/net/eth0/mtu", "1500\n"}},
       "/sys/class/net/eth0/mtu",
       finding_severity::slow,
       "size of packets (MTU): '1500 bytes'",
       "'9000 bytes', as on rank 0",
       "set one MTU on all hosts and switches, for example `ip link set dev eth0 mtu 9000`"},
      {rules::unlike_speed,
       "unlike-speed",
       {{"/sys/class/net/eth0/speed", "1000\n"}},
       "/sys/class/net/eth0/speed",
       finding_severity::slow,
       "speed of the network interface: '1000 Mbit/s'",
       "'100000 Mbit/s', as on rank 0",
       "check cable, port and the interface that the job uses; the slowest host limits all"},
      {rules::open_files,
       "open-files",
       {{"/proc/self/limits", "Max open files   100  100  files\nMax locked memory unlimited\n"}},
       "/proc/self/limits",
       finding_severity::fails,
       "the process may open 100 files",
       "at least 144 for 2 processes",
       "raise the limit, for example `ulimit -n 65536`"},
      {rules::locked_memory,
       "locked-memory",
       {{"/proc/self/limits", "Max open files   65536\nMax locked memory   65536  65536  bytes\n"}},
       "/proc/self/limits",
       finding_severity::fails,
       "the process may lock 64 KiB of memory, and the host has the RDMA device 'mlx5_0'",
       "no limit",
       "set `ulimit -l unlimited`, also in the systemd unit of the job manager"}};
  return all;
}

/// The settings of rank 0 on a host without faults, and of rank 1 on the host `of`.
std::vector<host_settings> two_hosts(planted::tree const& healthy, planted::tree const& of,
                                     fault const& about) {
  std::vector<host_settings> out{planted::read(healthy, 0, "a"), planted::read(of, 1, "b")};
  if (about.rule == rules::blas_code && of.files().text("/proc/cpuinfo").is_known() &&
      of.files().text("/proc/cpuinfo").value().find("Newer") != std::string::npos)
    out[1].blas_code = std::string("Prescott");
  return out;
}

void expect_unread(std::vector<finding> const& found, fault const& about, std::string const& why) {
  std::string all;
  bool is_found = false;
  for (auto const& each : found) {
    all += each.text() + "\n";
    EXPECT_EQ(each.id, about.id);
    EXPECT_EQ(each.severity, finding_severity::note);
    EXPECT_EQ(each.ranks, std::vector<int>{1});
    EXPECT_EQ(each.host, "b");
    is_found = is_found || (each.measured.find(": not checked (") != std::string::npos &&
                            each.measured.find(about.file + ": " + why) != std::string::npos);
  }
  EXPECT_TRUE(is_found) << about.file << " " << why << "; found:\n" << all;
}

void plant(planted::tree const& in, std::vector<planted::file> const& files) {
  for (auto const& [path, text] : files) in.plant(path, text);
}

TEST(SettingRules, FindEachFaultOnItsRankOnly) {
  planted::tree const healthy;
  for (auto const& about : faults()) {
    SCOPED_TRACE(about.id + " by " + about.file);
    planted::tree const faulty;
    for (auto const* const each : {&healthy, &faulty}) plant(*each, about.on_both);
    EXPECT_TRUE(about.rule(two_hosts(healthy, faulty, about)).empty());
    plant(faulty, about.files);
    auto const found = about.rule(two_hosts(healthy, faulty, about));
    ASSERT_EQ(found.size(), 1u) << found[0].text();
    EXPECT_EQ(found[0], (finding{.id = about.id,
                                 .severity = about.severity,
                                 .ranks = {1},
                                 .host = "b",
                                 .measured = about.measured,
                                 .expected = about.expected,
                                 .what_to_do = about.what_to_do}))
        << found[0].text();
    // Both ranks on the host with the fault are one finding.
    auto both = two_hosts(faulty, faulty, about);
    both[0] = both[1];
    both[0].rank = 0;
    if (!about.id.starts_with("unlike") && about.id != "loopback") {
      auto const of_both = about.rule(both);
      ASSERT_EQ(of_both.size(), 1u);
      EXPECT_EQ(of_both[0].ranks, (std::vector<int>{0, 1}));
    } else {
      EXPECT_TRUE(about.rule(both).empty());
    }
  }
}

TEST(SettingRules, SayThatAFileIsMissing) {
  planted::tree const healthy;
  for (auto const& about : faults()) {
    SCOPED_TRACE(about.id + " by " + about.file);
    planted::tree const faulty;
    plant(faulty, about.on_both);
    faulty.remove(about.file);
    auto const found = about.rule(two_hosts(healthy, faulty, about));
    if (about.file != "/sys/class/net/eth0/flags") {
      expect_unread(found, about, "missing");
      continue;
    }
    // A folder without this file does not describe an interface.
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].measured,
              "interface of the job: not checked (the host has no interface 'eth0')");
  }
}

TEST(SettingRules, SayThatAFileIsNotPermitted) {
  planted::tree const healthy;
  for (auto const& about : faults()) {
    SCOPED_TRACE(about.id + " by " + about.file);
    planted::tree const faulty;
    plant(faulty, about.on_both);
    faulty.forbid(about.file);
    std::vector<finding> found;
    {
      planted::as_ordinary_user const user;
      ASSERT_TRUE(user.is_right());
      found = about.rule(two_hosts(healthy, faulty, about));
    }
    expect_unread(found, about, "not permitted");
  }
}

TEST(SettingRules, SayThatAFileIsGarbage) {
  planted::tree const healthy;
  for (auto const& about : faults()) {
    SCOPED_TRACE(about.id + " by " + about.file);
    planted::tree const faulty;
    plant(faulty, about.on_both);
    faulty.plant(about.file, about.garbage);
    expect_unread(about.rule(two_hosts(healthy, faulty, about)), about, "garbage: ");
  }
}

TEST(SettingRules, AreAllAppliedByCheckSettings) {
  planted::tree const healthy, faulty;
  EXPECT_TRUE(plait::ext::check_settings({}).empty());
  auto of = std::vector{planted::read(healthy, 0, "a"), planted::read(healthy, 1, "b")};
  for (auto const& each : plait::ext::check_settings(of)) ADD_FAILURE() << each.text();
  for (auto const& about : faults()) {
    planted::tree const one;
    plant(one, about.on_both);
    plant(one, about.files);
    auto const all = plait::ext::check_settings(two_hosts(healthy, one, about));
    bool is_found = false;
    for (auto const& each : all)
      is_found = is_found || (each.id == about.id && each.measured == about.measured);
    EXPECT_TRUE(is_found) << about.id;
  }
}

/// Changes a text in random ways: cuts it off, or inserts digits or random bytes, for example.
std::string mutated(std::string text, std::mt19937& random) {
  auto const below = [&](std::size_t most) { return random() % std::max<std::size_t>(most, 1); };
  for (auto times = 1 + below(3); times > 0; --times) {
    auto const at = below(text.size() + 1);
    switch (below(6)) {
      case 0: text.resize(at); break;
      case 1: text.insert(at, "99999999999999999999"); break;
      case 2: text.insert(at, 1, static_cast<char>(random())); break;
      case 3: text.insert(at, text); break;
      case 4:
        if (at < text.size()) text[at] = static_cast<char>(random());
        break;
      default: text.erase(at, below(20)); break;
    }
    if (text.size() > 100'000) text.resize(100'000);
  }
  return text;
}

TEST(SettingRules, NeverFailOnMutatedFiles) {
  planted::tree const healthy, other;
  auto const rank_0 = planted::read(healthy, 0, "a");
  std::mt19937 random(1);
  std::vector<planted::file> files(planted::healthy_files());
  for (int i = 0; i < 400; ++i) {
    auto const& [path, text] = files[random() % files.size()];
    other.plant(path, mutated(text, random));
    for (auto const& host : {"a", "b"})
      for (auto const& each : plait::ext::check_settings({rank_0, planted::read(other, 1, host)})) {
        EXPECT_FALSE(each.id.empty());
        EXPECT_FALSE(each.ranks.empty());
        for (char const letter : each.text())
          ASSERT_TRUE(static_cast<unsigned char>(letter) >= 0x20 && letter != 0x7f) << each.json();
      }
    if (random() % 2 == 0) other.plant(path, text);
  }
}

}  // namespace
