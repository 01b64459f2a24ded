// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/doctor/finding.hpp"
#include "plait/doctor/host_settings.hpp"

// Rules about the GPUs of ranks; see processor_rules.hpp. Ranks that use no GPU are left out.
namespace plait::ext::setting_rules {

/// Finds pairs of ranks of a host whose GPUs cannot access each other's memory.
[[nodiscard]] [[gnu::cold]] std::vector<finding> gpu_peers(std::vector<host_settings> const& all);

/// Finds GPUs whose PCI Express link has fewer lanes, or an older generation, than the device and
/// its slot can have. An idle device may lower the generation to save power, so a lower generation
/// of an idle device is a note.
[[nodiscard]] [[gnu::cold]] std::vector<finding> gpu_lanes(std::vector<host_settings> const& all);
[[nodiscard]] [[gnu::cold]] std::vector<finding> gpu_generation(
    std::vector<host_settings> const& all);

/// Finds GPUs whose clock is lowered, with the cause. A limit of power, and a clock that a person
/// has set, are notes.
[[nodiscard]] [[gnu::cold]] std::vector<finding> gpu_clock(std::vector<host_settings> const& all);

/// Finds GPUs with errors of memory (ECC) since the driver was loaded; corrected errors are notes.
[[nodiscard]] [[gnu::cold]] std::vector<finding> gpu_errors(std::vector<host_settings> const& all);

/// Finds GPUs that are cut into instances (MIG).
[[nodiscard]] [[gnu::cold]] std::vector<finding> gpu_instances(
    std::vector<host_settings> const& all);

/// Finds GPUs with memory that belongs to processes other than the ranks of the host.
[[nodiscard]] [[gnu::cold]] std::vector<finding> gpu_memory(std::vector<host_settings> const& all);

/// Finds ranks that use one GPU together.
[[nodiscard]] [[gnu::cold]] std::vector<finding> gpu_shared(std::vector<host_settings> const& all);

/// Finds GPUs whose driver is unloaded when no program uses them (persistence mode is off).
[[nodiscard]] [[gnu::cold]] std::vector<finding> gpu_persistence(
    std::vector<host_settings> const& all);

}  // namespace plait::ext::setting_rules

#if PLAIT_HEADER_ONLY
#include "plait/doctor/gpu_rules.ipp"
#endif
