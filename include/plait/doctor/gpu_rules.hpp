// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/doctor/finding.hpp"
#include "plait/doctor/host_settings.hpp"

// Rules about the GPUs of ranks; see processor_rules.hpp. The rules ignore ranks that use no GPU.
namespace plait::ext::setting_rules {

/// Finds pairs of ranks of a host whose GPUs cannot access each other's memory (peer access).
[[nodiscard]] [[gnu::cold]] std::vector<finding> gpu_peers(std::vector<host_settings> const& all);

/// Finds GPUs whose PCI Express link has fewer lanes, or an older generation, than the device and
/// its slot support. An idle device may lower the generation to save power, so an older generation
/// is only a note while the device is idle.
[[nodiscard]] [[gnu::cold]] std::vector<finding> gpu_lanes(std::vector<host_settings> const& all);
[[nodiscard]] [[gnu::cold]] std::vector<finding> gpu_generation(
    std::vector<host_settings> const& all);

/// Finds GPUs whose clock is lowered, and names the causes. The finding is a note if the cause is
/// the power limit, a clock that a user has set, or a display.
[[nodiscard]] [[gnu::cold]] std::vector<finding> gpu_clock(std::vector<host_settings> const& all);

/// Finds GPUs that had memory errors (ECC) since the driver was loaded; corrected errors are a
/// note.
[[nodiscard]] [[gnu::cold]] std::vector<finding> gpu_errors(std::vector<host_settings> const& all);

/// Finds GPUs that are partitioned into instances (MIG).
[[nodiscard]] [[gnu::cold]] std::vector<finding> gpu_instances(
    std::vector<host_settings> const& all);

/// Finds GPUs on which processes other than the job's ranks use memory. In a container with its own
/// numbers of processes, the rule cannot tell these from the ranks, and returns a note.
[[nodiscard]] [[gnu::cold]] std::vector<finding> gpu_memory(std::vector<host_settings> const& all);

/// Finds GPUs that several ranks use.
[[nodiscard]] [[gnu::cold]] std::vector<finding> gpu_shared(std::vector<host_settings> const& all);

/// Finds GPUs whose driver is unloaded when no program uses them (persistence mode is off).
[[nodiscard]] [[gnu::cold]] std::vector<finding> gpu_persistence(
    std::vector<host_settings> const& all);

}  // namespace plait::ext::setting_rules

#if PLAIT_HEADER_ONLY
#include "plait/doctor/gpu_rules.ipp"
#endif
