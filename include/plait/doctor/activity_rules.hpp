// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/doctor/finding.hpp"
#include "plait/doctor/measured_job.hpp"

namespace plait::ext::activity_rules {

/// Finds ranks with busy processors: others than the job, which are other processes or other
/// virtual machines of the hypervisor, used more than 5 % of them during the measurements. The
/// finding names the processes. If ranks had less than 0.9 of the median of all ranks at a kind of
/// work, it also names the slowest kind.
///
/// Ranks that share processors have one finding. If the use is unknown, the result has a note with
/// the reason.
///
/// Errors:  none except std::bad_alloc. Ranks without an entry in `measured_job::use` give no
///          finding.
/// Threads: any.
[[nodiscard]] [[gnu::cold]] std::vector<finding> busy_cpu(measured_job const& of);

}  // namespace plait::ext::activity_rules

namespace plait::ext {

/// Returns true if, for every rank, the use of its processors by others is known and at most 5 %.
/// The measured speeds are then the speeds of a machine on which nothing else runs.
[[nodiscard]] bool is_quiet(measured_job const& of);

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/doctor/activity_rules.ipp"
#endif
