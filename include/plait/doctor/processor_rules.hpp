// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plait/backend/host/maths/openblas_code.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/doctor/finding.hpp"
#include "plait/doctor/host_settings.hpp"

/// Rules about settings. Each rule is a pure function of the settings of all ranks, and returns
/// findings whose `id` is the rule's name with '-' instead of '_'. If a rule needs a value that
/// could not be read, it returns a note with the reason.
namespace plait::ext::setting_rules {

/// Finds ranks whose BLAS runs kernels that were written for an older processor.
[[nodiscard]] [[gnu::cold]] std::vector<finding> blas_code(std::vector<host_settings> const& all);

/// Finds ranks of a host whose BLAS uses more threads together than these ranks have processors.
/// The affinity of a rank, the processors on which it may run, is one limit, and the quota of its
/// control group is another.
[[nodiscard]] [[gnu::cold]] std::vector<finding> blas_threads(
    std::vector<host_settings> const& all);

/// Finds ranks that must share a processor, because there are more ranks than processors on which
/// they may run. For example, of three ranks that may run on cpus {0}, {0} and {0, 1}, at least two
/// share a processor.
///
/// Cost: a matching of ranks and processors, at most ranks x ranks x processors steps for a host.
[[nodiscard]] [[gnu::cold]] std::vector<finding> shared_cpu(std::vector<host_settings> const& all);

/// Finds processes that were stopped because the quota of their control group was used up.
[[nodiscard]] [[gnu::cold]] std::vector<finding> throttled(std::vector<host_settings> const& all);

/// Finds ranks on processors whose clock has a governor other than 'performance'.
[[nodiscard]] [[gnu::cold]] std::vector<finding> governor(std::vector<host_settings> const& all);

/// Finds hosts whose hypervisor gives at least 1 % of the time of their processors to other virtual
/// machines (steal time).
[[nodiscard]] [[gnu::cold]] std::vector<finding> steal_time(std::vector<host_settings> const& all);

/// Finds processes with memory in swap (slow), and hosts that use swap (a note).
[[nodiscard]] [[gnu::cold]] std::vector<finding> swap(std::vector<host_settings> const& all);

/// Finds processes with at least a tenth of their memory, and at least 16 MiB, on NUMA nodes on
/// whose processors they may not run.
[[nodiscard]] [[gnu::cold]] std::vector<finding> numa_memory(std::vector<host_settings> const& all);

/// Finds processes whose control group may use less memory than the host has.
[[nodiscard]] [[gnu::cold]] std::vector<finding> memory_limit(
    std::vector<host_settings> const& all);

}  // namespace plait::ext::setting_rules

namespace plait::detail::doctor {

// Returns the processor whose kernels OpenBLAS should run instead of its current kernels; "" if
// they are the right kernels. The function is in this header because .ipp files do not call
// functions of host_maths: most of these depend on the processor for which a program is compiled.
// The function newer_openblas_code does not.
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
