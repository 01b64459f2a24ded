// SPDX-License-Identifier: Apache-2.0
// test: libs=doctor
#include "plait/doctor/host_settings.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "doctor/planted_tree.hpp"
#include "plait/core/error.hpp"
#include "plait/doctor/setting_rules.hpp"
#include "plait/doctor/settings_text.hpp"

namespace {

using plait::ext::blas_facts;
using plait::ext::compiler_flags;
using plait::ext::host_settings;
using plait::ext::no_limit;
using plait::ext::read_host_settings;
using plait::ext::settings_from_text;
using plait::ext::system_files;
using plait::ext::to_text;

TEST(HostSettings, AreReadFromAPlantedTree) {
  planted::tree const tree;
  auto const of = read_host_settings(
      tree.files(), {.rank = 3, .host = "a", .build = compiler_flags(), .mpi = "Open MPI 5"});
  EXPECT_EQ(of.rank, 3);
  EXPECT_EQ(of.host, "a");
  EXPECT_EQ(of.process, static_cast<std::uint64_t>(::getpid()));
  EXPECT_EQ(of.cpus.value(), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_TRUE(std::isinf(of.quota.value().cpus));
  EXPECT_EQ(of.governors.value(), std::vector<std::string>{"'performance'"});
  EXPECT_EQ(of.ticks.value(), 1000u);
  EXPECT_EQ(of.stolen_ticks.value(), 0u);
  EXPECT_EQ(of.swap_bytes.value(), 0u);
  EXPECT_EQ(of.own_swap_bytes.value(), 0u);
  EXPECT_EQ(of.memory_bytes.value(), std::uint64_t{16} << 30);
  EXPECT_EQ(of.memory_limit_bytes.value(), no_limit);
  ASSERT_EQ(of.numa_nodes.value().size(), 2u);
  EXPECT_EQ(of.numa_nodes.value()[1].number, 1);
  EXPECT_EQ(of.numa_nodes.value()[1].cpus, (std::vector<int>{2, 3}));
  EXPECT_EQ(of.bytes_on_node.value(), std::vector<std::uint64_t>{25600 * 4096});
  EXPECT_EQ(of.processor.value(), "Some Xeon");
  EXPECT_TRUE(of.has_flag("avx512vl"));
  EXPECT_FALSE(of.has_flag("avx512"));
  EXPECT_FALSE(of.is_amd);
  EXPECT_EQ(of.plait.value(), "0.1.0");
  EXPECT_EQ(of.mpi.value(), "Open MPI 5");
  EXPECT_EQ(of.nccl.value(), "none");
  EXPECT_EQ(of.driver.value(), "550.54.14");
  EXPECT_GT(of.clock_s.value(), 1.6e9);
  EXPECT_GT(of.shared_memory.value().bytes, 0u);
  EXPECT_EQ(of.most_open_files.value(), 65536u);
  EXPECT_EQ(of.most_locked_bytes.value(), no_limit);
  EXPECT_EQ(of.rdma_devices.value(), std::vector<std::string>{"mlx5_0"});
  ASSERT_EQ(of.interfaces.value().size(), 2u);
  EXPECT_EQ(of.interfaces.value()[0].name, "eth0");
  EXPECT_EQ(of.interfaces.value()[0].megabits.value(), 100000u);
  EXPECT_TRUE(of.interfaces.value()[1].is_loopback);
  EXPECT_EQ(of.interface.value(), "eth0");
  EXPECT_FALSE(of.uses_gpu);
  EXPECT_EQ(of.blas_threads.problem(), "not read");
}

TEST(HostSettings, OfAnEmptyTreeHaveAReasonEach) {
  planted::tree const tree{std::initializer_list<planted::file>{}};
  auto const of = read_host_settings(tree.files(), {});
  EXPECT_EQ(of.pid_namespace.problem(), "/proc/self/ns/pid: missing");
  EXPECT_EQ(of.cpus.problem(), "/proc/thread-self/status: missing");
  EXPECT_EQ(of.quota.problem(), "/proc/self/mountinfo: missing");
  EXPECT_EQ(of.governors.problem(), "/proc/thread-self/status: missing");
  EXPECT_EQ(of.ticks.problem(), "/proc/stat: missing");
  EXPECT_EQ(of.swap_bytes.problem(), "/proc/meminfo: missing");
  EXPECT_EQ(of.own_swap_bytes.problem(), "/proc/self/status: missing");
  EXPECT_EQ(of.memory_bytes.problem(), "/proc/meminfo: missing");
  EXPECT_EQ(of.memory_limit_bytes.problem(), "/proc/self/mountinfo: missing");
  EXPECT_EQ(of.numa_nodes.problem(), "/sys/devices/system/node: missing");
  EXPECT_EQ(of.bytes_on_node.problem(), "/proc/self/numa_maps: missing");
  EXPECT_EQ(of.processor.problem(), "/proc/cpuinfo: missing");
  EXPECT_EQ(of.build.problem(), "the program did not give them");
  EXPECT_EQ(of.driver.problem(), "/sys/module/nvidia/version: missing");
  EXPECT_EQ(of.shared_memory.problem(), "/dev/shm: missing");
  EXPECT_EQ(of.most_open_files.problem(), "/proc/self/limits: missing");
  EXPECT_EQ(of.rdma_devices.problem(), "/sys/class/infiniband: missing");
  EXPECT_EQ(of.interfaces.problem(), "/sys/class/net: missing");
  EXPECT_EQ(of.interface.problem(), "/proc/net/route: missing");
  // Each rule that needs a file returns a note about it, and no rule finds a fault.
  std::vector<std::string> ids;
  for (auto const& each : plait::ext::check_settings({of})) {
    EXPECT_EQ(each.severity, plait::ext::finding_severity::note) << each.text();
    ids.push_back(each.id);
  }
  for (auto const* const id : {"blas-code", "blas-threads", "shared-cpu", "throttled", "governor",
                               "steal-time", "swap", "numa-memory", "memory-limit", "unlike-build",
                               "unlike-driver", "shared-memory", "open-files", "locked-memory"})
    EXPECT_NE(std::find(ids.begin(), ids.end(), id), ids.end()) << id;
}

TEST(HostSettings, OfThisMachineAreRead) {
  auto const of = read_host_settings(system_files(),
                                     {.build = compiler_flags(), .blas = blas_facts::of_program()});
  ASSERT_TRUE(of.cpus.is_known()) << of.cpus.problem();
  ::cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  EXPECT_EQ(of.cpus.value().size(), static_cast<std::size_t>(CPU_COUNT(&allowed)));
  for (int const cpu : of.cpus.value()) EXPECT_TRUE(CPU_ISSET(cpu, &allowed)) << cpu;
  ASSERT_TRUE(of.memory_bytes.is_known()) << of.memory_bytes.problem();
  // In a container, this number may be less than the memory of the host.
  EXPECT_GT(of.memory_bytes.value(), 0u);
  EXPECT_LE(of.memory_bytes.value(), static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                                         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
  EXPECT_EQ(of.most_open_files.value(), static_cast<std::uint64_t>(::sysconf(_SC_OPEN_MAX)));
  for (auto const& each : plait::ext::check_settings({of})) EXPECT_FALSE(each.text().empty());
}

TEST(HostSettings, HaveTheAffinityOfTheThread) {
  std::vector<int> cpus;
  std::thread([&] {
    ::cpu_set_t one;
    CPU_ZERO(&one);
    ::cpu_set_t allowed;
    ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &allowed)) ++cpu;
    CPU_SET(cpu, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    cpus = read_host_settings(system_files(), {}).cpus.value();
    ASSERT_EQ(cpus.size(), 1u);
    EXPECT_EQ(cpus[0], cpu);
  }).join();
}

TEST(HostSettings, HaveTheNumberOfTheNameSpaceOfProcesses) {
  auto const of = read_host_settings(system_files(), {});
  ASSERT_TRUE(of.pid_namespace.is_known()) << of.pid_namespace.problem();
  EXPECT_EQ("pid:[" + std::to_string(of.pid_namespace.value()) + "]",
            std::filesystem::read_symlink("/proc/self/ns/pid").native());
  planted::tree const tree;
  auto const planted = [&](char const* text) {
    tree.remove("/proc/self/ns");
    tree.link("/proc/self/ns/pid", text);
    return read_host_settings(tree.files(), {}).pid_namespace;
  };
  EXPECT_EQ(read_host_settings(tree.files(), {}).pid_namespace.problem(),
            "/proc/self/ns/pid: missing");
  EXPECT_EQ(planted("pid:[4026531836]").value(), plait::ext::initial_pid_namespace);
  EXPECT_EQ(planted("pid:[7]").value(), 7u);
  for (auto const* const wrong : {"pid:7", "pid:[7", "pid:[x]", "mnt:[7]", "pid:[]", "/x"})
    EXPECT_EQ(planted(wrong).problem(), "/proc/self/ns/pid: garbage: '" + std::string(wrong) +
                                            "' is not the number of a name space")
        << wrong;
}

TEST(HostSettings, EscapeTextsFromOutside) {
  planted::tree const tree;
  tree.plant("/proc/cpuinfo", "model name: \x1b[31mred\nflags: a\xff\n");
  auto const of = read_host_settings(tree.files(), {.host = "a\nb", .interface = "e\x1b"});
  EXPECT_EQ(of.processor.value(), "\\x1b[31mred");
  EXPECT_EQ(of.processor_flags.value(), "a\\xff");
  EXPECT_EQ(of.host, "a\\nb");
  EXPECT_EQ(of.interface.value(), "e\\x1b");
}

TEST(HostSettings, OfAnArmProcessorHaveOtherKeys) {
  planted::tree const tree;
  tree.plant("/proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd sve\nCPU part\t: 0xd40\n");
  auto const of = read_host_settings(tree.files(), {});
  EXPECT_EQ(of.processor.value(), "0xd40");
  EXPECT_TRUE(of.has_flag("sve"));
}

TEST(CompilerFlags, NameTheCompiler) {
  auto const text = compiler_flags();
#if defined(__clang__)
  EXPECT_TRUE(text.starts_with("clang ")) << text;
#else
  EXPECT_TRUE(text.starts_with("GNU ")) << text;
#endif
  EXPECT_NE(text.find(", -O"), std::string::npos) << text;
}

TEST(BlasFacts, AreKnownOrHaveAReason) {
  auto const of = blas_facts::of_program();
  EXPECT_EQ(of.threads.is_known(), of.threads.problem().empty());
  if (!of.threads.is_known()) {
    EXPECT_EQ(of.threads.problem(), "no function of OpenBLAS is loaded in this process");
    EXPECT_EQ(of.code.problem(), of.threads.problem());
    EXPECT_EQ(of.version.problem(), of.threads.problem());
  } else {
    EXPECT_GE(of.threads.value(), 1u);
    EXPECT_TRUE(of.version.value().starts_with("OpenBLAS ")) << of.version.value();
  }
}

host_settings with_a_gpu() {
  planted::tree const tree;
  auto out = planted::read(tree, 5, "b");
  plait::ext::gpu_settings gpu;
  gpu.uuid = "GPU-1";
  gpu.lanes = std::uint64_t{16};
  gpu.processes = std::vector<plait::ext::gpu_process>{{1, 2}, {3, no_limit}};
  gpu.peers = std::vector<plait::ext::gpu_peer>{{"GPU-2", std::uint64_t{0}}, {"GPU-3", {}}};
  out.uses_gpu = true;
  out.device_memory_bytes = 80'000'000'000;
  out.gpu = gpu;
  out.host = std::string("b\0:;", 4);
  return out;
}

TEST(SettingsText, GivesBackWhatWasWritten) {
  planted::tree const tree;
  for (auto const& of :
       {host_settings{}, planted::read(tree, 2, "a"), with_a_gpu(),
        read_host_settings(system_files(), {.rank = 1, .gpu_bus = "0", .nvml = "no library"})})
    EXPECT_EQ(settings_from_text(to_text(of)), of);
}

std::string message_of(std::string const& text) {
  try {
    static_cast<void>(settings_from_text(text));
  } catch (plait::input_error const& problem) {
    return problem.what();
  }
  return "";
}

TEST(SettingsText, RefusesOtherBytes) {
  auto const text = to_text(with_a_gpu());
  EXPECT_EQ(message_of(""),
            "settings of another rank: byte 0 of 0 is not part of settings; start the same program "
            "on all hosts");
  EXPECT_NE(message_of(text + "1;"), "");
  EXPECT_NE(message_of("99999999999;" + text), "");
  for (std::size_t size = 0; size < text.size(); ++size)
    ASSERT_NE(message_of(text.substr(0, size)), "") << size;
  auto of = with_a_gpu();
  for (auto const& cpus : {std::vector<int>{3, 2}, {-1, 2}, {1, 1}, {1 << 20}, {}}) {
    of.cpus = cpus;
    EXPECT_EQ(message_of(to_text(of)),
              "settings of another rank: the cpus of rank 5 are not a sorted list");
  }
}

TEST(SettingsText, NeverFailsOnMutatedBytes) {
  auto const text = to_text(with_a_gpu());
  std::mt19937 random(3);
  int accepted = 0;
  for (int i = 0; i < 2000; ++i) {
    auto changed = text;
    for (auto times = 1 + random() % 3; times > 0; --times)
      changed[random() % changed.size()] =
          random() % 2 == 0 ? static_cast<char>(random()) : static_cast<char>('0' + random() % 12);
    try {
      auto const of = settings_from_text(changed);
      for (auto const& each : plait::ext::check_settings({of, of}))
        EXPECT_FALSE(each.text().empty());
      ++accepted;
    } catch (plait::input_error const&) {
      continue;
    }
  }
  EXPECT_GT(accepted, 40);
  EXPECT_LT(accepted, 1960);
}

}  // namespace
