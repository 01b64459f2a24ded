// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/doctor/finding.hpp"
#include "plait/doctor/measured_job.hpp"

namespace plait::ext::activity_rules {

/// Finds ranks of whose processors others than the job used more than 5 % during the measurements:
/// other processes, or the hypervisor's other virtual machines. The finding names the processes
/// and, if a kind of work was below 0.9 of the median of all ranks, the slowest one.
///
/// Ranks that share processors are one finding. If the use is unknown, the result is a note with
/// the reason.
///
/// Errors:  none except std::bad_alloc. Ranks without an entry in `measured_job::use` give no
///          finding.
/// Threads: any.
[[nodiscard]] [[gnu::cold]] std::vector<finding> busy_cpu(measured_job const& of);

}  // namespace plait::ext::activity_rules

namespace plait::ext {

/// Returns true if the use of every rank's processors by others is known and at most 5 %, so that
/// the measurements are the speeds of an idle machine.
[[nodiscard]] bool is_quiet(measured_job const& of);

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/doctor/activity_rules.ipp"
#endif
