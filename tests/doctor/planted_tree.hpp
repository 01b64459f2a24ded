// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "plait/doctor/host_settings.hpp"

// Trees of files that describe a made-up machine, for tests of the rules of settings.
namespace planted {

/// A file of a tree: its absolute path below the tree's root, and its text.
using file = std::pair<std::string, std::string>;

/// Returns the files of a host without a fault, which has 4 cpus on 2 NUMA nodes, and control
/// groups of version 2.
inline std::initializer_list<file> healthy_files() {
  static std::initializer_list<file> const all{
      {"/proc/thread-self/status", "Name:\tplait\nCpus_allowed_list:\t0-3\n"},
      {"/proc/self/status", "Name:\tplait\nVmSwap:\t       0 kB\nCpus_allowed_list:\t0-3\n"},
      {"/proc/self/mountinfo",
       "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
       "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 master:1 - cgroup2 cgroup2 rw\n"},
      {"/proc/self/cgroup", "0::/slice/job\n"},
      {"/sys/fs/cgroup/cgroup.controllers", "cpu memory\n"},
      {"/sys/fs/cgroup/slice/cgroup.controllers", "cpu memory\n"},
      {"/sys/fs/cgroup/slice/cpu.max", "max 100000\n"},
      {"/sys/fs/cgroup/slice/memory.max", "max\n"},
      {"/sys/fs/cgroup/slice/job/cgroup.controllers", "cpu memory\n"},
      {"/sys/fs/cgroup/slice/job/cpu.max", "max 100000\n"},
      {"/sys/fs/cgroup/slice/job/cpu.stat", "usage_usec 5\nnr_periods 0\nnr_throttled 0\n"},
      {"/sys/fs/cgroup/slice/job/memory.max", "max\n"},
      {"/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"},
      {"/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"},
      {"/sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "performance\n"},
      {"/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "performance\n"},
      {"/sys/devices/system/node/online", "0-1\n"},
      {"/sys/devices/system/node/node0/cpulist", "0-1\n"},
      {"/sys/devices/system/node/node1/cpulist", "2-3\n"},
      {"/sys/module/nvidia/version", "550.54.14\n"},
      {"/sys/class/infiniband/mlx5_0/node_type", "1: CA\n"},
      {"/sys/class/net/bonding_masters", "\n"},
      {"/sys/class/net/lo/flags", "0x9\n"},
      {"/sys/class/net/lo/mtu", "65536\n"},
      {"/sys/class/net/eth0/flags", "0x1003\n"},
      {"/sys/class/net/eth0/mtu", "9000\n"},
      {"/sys/class/net/eth0/speed", "100000\n"},
      {"/proc/net/route",
       "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
       "eth1\t00000000\t0102A8C0\t0003\t0\t0\t200\t00000000\t0\t0\t0\n"
       "eth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
       "eth0\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"},
      {"/proc/stat",
       "cpu  100 0 100 800 0 0 0 0 0 0\n"
       "cpu0 25 0 25 200 0 0 0 0 0 0\ncpu1 25 0 25 200 0 0 0 0 0 0\n"
       "cpu2 25 0 25 200 0 0 0 0 0 0\ncpu3 25 0 25 200 0 0 0 0 0 0\n"},
      {"/proc/meminfo", "MemTotal:       16777216 kB\nSwapTotal:  1024 kB\nSwapFree:   1024 kB\n"},
      {"/proc/self/numa_maps",
       "55e4 default file=/usr/bin/x mapped=9 N1=999999 kernelpagesize_kB=4\n"
       "7f00 default anon=25600 dirty=25600 N0=25600 kernelpagesize_kB=4\n"
       "7f01 default\n"},
      {"/proc/cpuinfo",
       "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Some Xeon\nflags\t\t: fpu avx2 "
       "fma "
       "avx512f avx512dq avx512bw avx512vl\n\n"},
      {"/proc/self/limits",
       "Limit                     Soft Limit           Hard Limit           Units     \n"
       "Max open files            65536                65536                files     \n"
       "Max locked memory         unlimited            unlimited            bytes     \n"},
      {"/dev/shm/unused", ""},
      {"/proc/1000/stat",
       "1000 (plait) R 1 7 7 0 -1 4194304 99 0 0 0 50 5 0 0 20 0 1 0 900 3133440 383 1 1 1 0 0 0 "
       "0 0 0 0 0 0 0 17 2 0 0 0 0 0\n"},
      {"/proc/7/stat",
       "7 (a (b) c) S 1 7 7 0 -1 4194304 99 0 0 0 20 2 0 0 20 0 1 0 800 3133440 383 1 1 1 0 0 0 0 "
       "0 0 0 0 0 0 17 1 0 0 0 0 0\n"}};
  return all;
}

/// A folder with a tree of files; the destructor removes it.
class tree {
 public:
  tree() : tree(healthy_files()) {}
  explicit tree(std::initializer_list<file> files) {
    static int count = 0;
    // Files in memory are faster than files on a disk.
    std::filesystem::path const memory = "/dev/shm";
    root_ = (std::filesystem::exists(memory) ? memory : std::filesystem::temp_directory_path()) /
            ("plait_doctor_" + std::to_string(::getpid()) + "_" + std::to_string(count++));
    std::filesystem::create_directories(root_);
    for (auto const& [path, text] : files) plant(path, text);
  }
  ~tree() {
    std::error_code unused;
    std::filesystem::remove_all(root_, unused);
  }
  tree(tree const&) = delete;
  tree& operator=(tree const&) = delete;

  void plant(std::string const& path, std::string_view text) const {
    std::filesystem::create_directories(place(path).parent_path());
    std::ofstream(place(path), std::ios::binary) << text;
  }
  /// Plants a symbolic link, which may refer to a file that does not exist.
  void link(std::string const& path, std::string const& to) const {
    std::filesystem::create_directories(place(path).parent_path());
    std::filesystem::create_symlink(to, place(path));
  }
  void remove(std::string const& path) const { std::filesystem::remove_all(place(path)); }
  void forbid(std::string const& path) const {
    std::filesystem::permissions(place(path), std::filesystem::perms::none);
  }
  [[nodiscard]] std::filesystem::path place(std::string const& path) const {
    return root_.native() + path;
  }
  [[nodiscard]] plait::ext::system_files files() const {
    return plait::ext::system_files(root_.native());
  }

 private:
  std::filesystem::path root_;
};

/// Takes the rights of root from the process while the object exists, because root may read every
/// file.
class as_ordinary_user {
 public:
  as_ordinary_user() {
    if (was_root_) is_right_ = ::seteuid(65534) == 0;
  }
  ~as_ordinary_user() {
    if (was_root_) is_right_ = ::seteuid(0) == 0;
  }
  as_ordinary_user(as_ordinary_user const&) = delete;
  as_ordinary_user& operator=(as_ordinary_user const&) = delete;
  [[nodiscard]] bool is_right() const { return is_right_; }

 private:
  bool was_root_ = ::geteuid() == 0, is_right_ = true;
};

/// Returns the settings of a rank on a host that has the files of `of`; the BLAS suits the
/// processor.
inline plait::ext::host_settings read(tree const& of, int rank, std::string const& host) {
  auto out = plait::ext::read_host_settings(of.files(),
                                            {.rank = rank,
                                             .host = host,
                                             .build = std::string("GNU 12.2.0, -O"),
                                             .blas = {.version = std::string("OpenBLAS 0.3.26"),
                                                      .code = std::string("SkylakeX"),
                                                      .threads = std::uint64_t{1}}});
  out.process = 1000 + static_cast<std::uint64_t>(rank);
  out.pid_namespace = plait::ext::initial_pid_namespace;
  out.clock_s = 1e9;
  out.shared_memory =
      plait::ext::file_system_space{.bytes = std::uint64_t{1} << 30, .free_bytes = 1u << 30};
  return out;
}

}  // namespace planted
