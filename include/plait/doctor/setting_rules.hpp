// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/doctor/finding.hpp"
#include "plait/doctor/gpu_rules.hpp"
#include "plait/doctor/host_settings.hpp"
#include "plait/doctor/process_rules.hpp"
#include "plait/doctor/processor_rules.hpp"

namespace plait::ext {

/// Applies all rules: the rules about processors, about processes and about GPUs.
///
/// `all`: the settings of all ranks, in any order.
///
/// Cost:    less than a millisecond for 8 ranks.
/// Errors:  none except std::bad_alloc.
/// Threads: any.
[[nodiscard]] [[gnu::cold]] std::vector<finding> check_settings(
    std::vector<host_settings> const& all);

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/doctor/setting_rules.ipp"
#endif
