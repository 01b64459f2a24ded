// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/doctor/system_files.hpp"

namespace plait::ext {

/// The number of a process (pid) that uses memory of a GPU, and the bytes that it uses.
struct gpu_process {
  std::uint64_t process = 0, bytes = 0;
  friend bool operator==(gpu_process const&, gpu_process const&) = default;
};

/// The access of a GPU to the memory of another GPU of the same host.
struct gpu_peer {
  std::string uuid{};  ///< the other device
  /// 0 if the GPU may read and write the memory of the other device; otherwise NVML's code of the
  /// cause.
  reading<std::uint64_t> status{};
  friend bool operator==(gpu_peer const&, gpu_peer const&) = default;
};

/// The settings of a rank's GPU, as reported by NVML, a library of NVIDIA's driver.
struct gpu_settings {
  std::string uuid{}, bus{};
  reading<std::string> name{}, driver{};
  /// The PCI Express link: lanes and generation, now and at most.
  reading<std::uint64_t> lanes{}, most_lanes{}, generation{}, most_generation{};
  /// The causes of lower clocks, as bits; see gpu_clock_causes.
  reading<std::uint64_t> clock_causes{};
  /// The numbers of memory errors (ECC) since the driver was loaded.
  reading<std::uint64_t> corrected_errors{}, uncorrected_errors{};
  /// 1 if the device is partitioned into instances (MIG); 0 if it is not, or does not support MIG.
  reading<std::uint64_t> is_cut{};
  reading<std::uint64_t> is_persistent{};
  reading<std::vector<gpu_process>> processes{};
  reading<std::vector<gpu_peer>> peers{};
  friend bool operator==(gpu_settings const&, gpu_settings const&) = default;
};

/// Bits of gpu_settings::clock_causes, as NVML numbers them.
namespace gpu_clock_causes {
inline constexpr std::uint64_t idle = 0x1, applications_clocks = 0x2, power_cap = 0x4,
                               hardware_slowdown = 0x8, sync_boost = 0x10,
                               thermal_by_software = 0x20, thermal_by_hardware = 0x40,
                               power_brake = 0x80, display = 0x100;
}

/// Reads the settings of a GPU from NVML, which is loaded at run time.
///
/// `bus`: PCI bus address, as CUDA writes it. `library`: name or path of NVML.
///
/// Cost:    loads and starts the library in up to a second, and then makes about 20 calls.
/// Errors:  none except std::bad_alloc. If the library or the device is missing, the result is
///          unknown. If a query fails or the library lacks its function, only its value is unknown.
/// Threads: any.
[[nodiscard]] [[gnu::cold]] reading<gpu_settings> read_gpu(std::string const& bus,
                                                           std::string const& library);

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/doctor/gpu_settings.ipp"
#endif
