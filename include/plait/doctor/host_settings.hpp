// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/doctor/blas_facts.hpp"
#include "plait/doctor/gpu_settings.hpp"
#include "plait/doctor/system_files.hpp"

namespace plait::ext {

/// The value of a limit on bytes or files that is not set.
inline constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

/// The number of the name space of processes (pid name space) of a host outside of all containers;
/// Linux has a fixed number for it.
inline constexpr std::uint64_t initial_pid_namespace = 0xEFFF'FFFC;

/// A NUMA node of a host: the number of a part of its memory, and the processors next to it.
struct numa_node {
  int number = 0;
  std::vector<int> cpus{};
  friend bool operator==(numa_node const&, numa_node const&) = default;
};

/// A network interface of a host.
struct network_interface {
  std::string name{};
  bool is_loopback = false;
  reading<std::uint64_t> mtu_bytes{};
  reading<std::uint64_t> megabits{};  ///< speed in 10^6 bits per second
  friend bool operator==(network_interface const&, network_interface const&) = default;
};

/// The quota of processor time of a process, from its control group (cgroup) and the groups
/// above it.
struct cpu_quota {
  double cpus = 0;      ///< the least quota, in processors; infinite if there is none
  std::string group{};  ///< the folder of the group with this quota; processes may share it
  /// The number of periods in which the group had work to do, and of the periods in which it was
  /// stopped because the quota was used up; 0 without a quota.
  reading<std::uint64_t> periods{}, throttled_periods{};
  friend bool operator==(cpu_quota const&, cpu_quota const&) = default;
};

/// The settings of one rank, of its process and of its host. read_host_settings fills them in, and
/// the rules of setting_rules.hpp compare them.
///
/// Units:   bytes, unless a name says otherwise. Limits that are not set are no_limit.
struct host_settings {
  int rank = 0;
  std::string host{};
  std::uint64_t process = 0;  ///< the number of the process (pid)
  /// The number of the name space to which `process` belongs. A container usually has its own.
  reading<std::uint64_t> pid_namespace{};

  // Processors and memory.
  reading<std::vector<int>> cpus{};  ///< processors on which this rank may run (affinity)
  reading<cpu_quota> quota{};
  reading<std::vector<std::string>> governors{};  ///< clock governors of `cpus`, each once
  /// The time of all processors since the start of the host, and the part of this time that the
  /// hypervisor gave to other virtual machines (steal time), in ticks of /proc/stat.
  reading<std::uint64_t> ticks{}, stolen_ticks{};
  reading<std::uint64_t> swap_bytes{};          ///< swap that is in use on the host
  reading<std::uint64_t> own_swap_bytes{};      ///< memory of this process that is in swap
  reading<std::uint64_t> memory_bytes{};        ///< memory of the host
  reading<std::uint64_t> memory_limit_bytes{};  ///< the least limit of the process's control groups
  reading<std::vector<numa_node>> numa_nodes{};
  /// Memory of this process on each node, indexed by the node's number, without mapped files.
  reading<std::vector<std::uint64_t>> bytes_on_node{};
  reading<std::string> processor{};        ///< such as "Intel(R) Xeon(R) Processor"
  reading<std::string> processor_flags{};  ///< words such as "avx2", separated by blanks
  bool is_amd = false;

  // The library of matrix products.
  reading<std::string> blas_code{};  ///< see blas_facts::code
  reading<std::uint64_t> blas_threads{};

  // Versions; "none" if a rank does not use the library.
  reading<std::string> plait{}, build{}, blas{}, mpi{}, nccl{}, cuda{}, driver{};

  // Between processes.
  reading<double> clock_s{};                   ///< seconds of the host's clock since 1970
  reading<file_system_space> shared_memory{};  ///< space of /dev/shm
  reading<std::uint64_t> most_open_files{}, most_locked_bytes{};
  reading<std::vector<std::string>> rdma_devices{};  ///< such as "mlx5_0"
  reading<std::vector<network_interface>> interfaces{};
  reading<std::string> interface{};  ///< the name of the interface that the job uses

  bool uses_gpu = false;
  std::uint64_t device_memory_bytes = 0;  ///< memory of the rank's device; 0: unknown
  reading<gpu_settings> gpu{};            ///< the rank's device

  /// Subtracts the counters (ticks, periods of the quota) of `earlier`, an earlier reading of the
  /// same rank, so that they count from that time. A counter that is smaller than in `earlier`
  /// becomes unknown.
  [[gnu::cold]] void count_from(host_settings const& earlier);
  [[nodiscard]] bool has_flag(std::string_view flag) const;

  friend bool operator==(host_settings const&, host_settings const&) = default;
};

/// The facts about a rank that no file of the system contains.
struct settings_request {
  int rank = 0;
  std::string host{};  ///< the name of the rank's host, as in plait's other messages
  /// The flags of the compiler, see compiler_flags.
  reading<std::string> build = reading<std::string>::unknown("the program did not give them");
  blas_facts blas{};  ///< see blas_facts::of_program
  /// Versions of the libraries that the backend uses.
  std::string mpi = "none", nccl = "none", cuda = "none";
  /// The interface on which the backend communicates; if empty, the interface of the default route.
  std::string interface{};
  /// The PCI bus address of the rank's GPU, as CUDA writes it ("0000:3b:00.0"); "" if the rank uses
  /// no GPU. Read the settings before ranks use their devices, so that all memory in use belongs to
  /// other programs.
  std::string gpu_bus{};
  std::uint64_t device_memory_bytes = 0;   ///< memory of the rank's GPU; 0: unknown
  std::string nvml = "libnvidia-ml.so.1";  ///< name or path of NVML
};

/// Reads the settings of the calling thread, its process and its host.
///
/// Cost:    reads some hundred small files in about 10 ms; with a GPU also starts NVML.
/// Errors:  none except std::bad_alloc; a value that cannot be read is unknown, with the reason.
/// Threads: any. The affinity is the calling thread's.
[[nodiscard]] [[gnu::cold]] host_settings read_host_settings(system_files const& files,
                                                             settings_request const& request);

/// Returns the compiler of the calling file, the options that change its numbers, and the
/// instruction sets for which it was compiled, such as "GNU 12.2.0, -O, AVX2, FMA". Ranks with
/// different flags may compute different bits.
///
/// The function is static because its result depends on the options of each file.
[[nodiscard]] [[maybe_unused]] static std::string compiler_flags() {
  std::string out =
#if defined(__clang__)
      "clang " __clang_version__;
#elif defined(__GNUC__)
      "GNU " __VERSION__;
#else
      "unknown compiler";
#endif
#if defined(__OPTIMIZE__)
  out += ", -O";
#else
  out += ", -O0";
#endif
#if defined(__FAST_MATH__)
  out += ", -ffast-math";
#endif
#if defined(__AVX2__)
  out += ", AVX2";
#endif
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  out += ", FMA";
#endif
#if defined(__AVX512F__)
  out += ", AVX-512";
#endif
#if defined(__ARM_FEATURE_SVE)
  out += ", SVE";
#endif
  return out;
}

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/doctor/host_settings.ipp"
#endif
