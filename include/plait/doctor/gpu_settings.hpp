// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/doctor/system_files.hpp"

namespace plait::ext {

/// A process that has memory of a GPU.
struct gpu_process {
  std::uint64_t process = 0, bytes = 0;
  friend bool operator==(gpu_process const&, gpu_process const&) = default;
};

/// The access of a GPU to the memory of another GPU of the same host.
struct gpu_peer {
  std::string uuid{};  ///< the other device
  reading<std::uint64_t>
      status{};  ///< 0 if both may read and write; else NVML's number of the cause
  friend bool operator==(gpu_peer const&, gpu_peer const&) = default;
};

/// The settings of the GPU of a rank, as NVML, the driver's library, describes it.
struct gpu_settings {
  std::string uuid{}, bus{};
  reading<std::string> name{}, driver{};
  /// The PCI Express link: lanes and generation, now and at most.
  reading<std::uint64_t> lanes{}, most_lanes{}, generation{}, most_generation{};
  /// The causes of lower clocks, as bits; see gpu_clock_causes.
  reading<std::uint64_t> clock_causes{};
  reading<std::uint64_t> corrected_errors{},
      uncorrected_errors{};  ///< ECC, since the driver's load
  /// 1 if the device is cut into instances (MIG); 0 also if it cannot be.
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
/// Cost:    loads the library and starts it, up to a second; then some 20 calls.
/// Errors:  none but std::bad_alloc. If the library or the device is missing, the result is
///          unknown; if one question fails or the library lacks its function, this value is
///          unknown.
/// Threads: any.
[[nodiscard]] [[gnu::cold]] reading<gpu_settings> read_gpu(std::string const& bus,
                                                           std::string const& library);

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/doctor/gpu_settings.ipp"
#endif
