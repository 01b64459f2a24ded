// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plait/backend/host/maths/openblas_code.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/doctor/finding.hpp"
#include "plait/doctor/host_settings.hpp"

/// Rules of settings: each is a pure function of the settings of all ranks, and returns findings
/// whose `id` is the rule's name with '-' instead of '_'. If a rule needs a value that could not be
/// read, it returns a note with the reason.
namespace plait::ext::setting_rules {

/// Finds a library of matrix products that runs code for an older processor.
[[nodiscard]] [[gnu::cold]] std::vector<finding> blas_code(std::vector<host_settings> const& all);

/// Finds ranks whose products would use more threads than processors: those on which they may run
/// (affinity), or the quota of their control group. Threads of all ranks of a host count together.
[[nodiscard]] [[gnu::cold]] std::vector<finding> blas_threads(
    std::vector<host_settings> const& all);

/// Finds ranks that must share a processor, because the processors on which they may run are fewer
/// than they. For example, of three ranks that may run on cpus {0}, {0} and {0, 1}, at least two
/// share a processor.
///
/// Cost: a matching of ranks and processors, at most ranks x ranks x processors steps for a host.
[[nodiscard]] [[gnu::cold]] std::vector<finding> shared_cpu(std::vector<host_settings> const& all);

/// Finds processes that were stopped because the quota of their control group was used up.
[[nodiscard]] [[gnu::cold]] std::vector<finding> throttled(std::vector<host_settings> const& all);

/// Finds processors whose clock is not governed for performance.
[[nodiscard]] [[gnu::cold]] std::vector<finding> governor(std::vector<host_settings> const& all);

/// Finds virtual machines whose processors are given to other machines for 1 % of the time.
[[nodiscard]] [[gnu::cold]] std::vector<finding> steal_time(std::vector<host_settings> const& all);

/// Finds processes with memory in swap (slow), and hosts that use swap (a note).
[[nodiscard]] [[gnu::cold]] std::vector<finding> swap(std::vector<host_settings> const& all);

/// Finds processes of which a tenth of the memory, and at least 16 MiB, is on NUMA nodes without
/// any of the process's processors.
[[nodiscard]] [[gnu::cold]] std::vector<finding> numa_memory(std::vector<host_settings> const& all);

/// Finds control groups whose memory limit is below the memory of the host.
[[nodiscard]] [[gnu::cold]] std::vector<finding> memory_limit(
    std::vector<host_settings> const& all);

}  // namespace plait::ext::setting_rules

namespace plait::detail::doctor {

// Returns the code that OpenBLAS should run instead of the rank's code; "" for the same code. It is
// here because .ipp files do not call functions of host_maths, which most often depend on the
// program's processor; this one does not.
[[nodiscard]] inline std::string better_openblas_code(host_settings const& of) {
  host_maths::processor_features features;
  features.has_avx2 = of.has_flag("avx2") && of.has_flag("fma");
  features.has_avx512 = of.has_flag("avx512f") && of.has_flag("avx512dq") &&
                        of.has_flag("avx512bw") && of.has_flag("avx512vl");
  features.is_amd = of.is_amd;
  return host_maths::newer_openblas_code(of.blas_code.value().c_str(), features);
}

}  // namespace plait::detail::doctor

#if PLAIT_HEADER_ONLY
#include "plait/doctor/processor_rules.ipp"
#endif
