// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/doctor/finding.hpp"
#include "plait/doctor/measured_job.hpp"

namespace plait::detail::doctor {

/// Returns the findings of the rules about links: `slow-host`, `slow-pair` and `shared-link`; see
/// check_speeds().
[[nodiscard]] [[gnu::cold]] std::vector<ext::finding> check_links(ext::measured_job const& of);

/// Returns the host of a rank and its processors, if they are known: "host a, cpus 0-3".
[[nodiscard]] [[gnu::cold]] std::string place_of(ext::measured_job const& of, std::size_t rank);

}  // namespace plait::detail::doctor

#if PLAIT_HEADER_ONLY
#include "plait/doctor/link_rules.ipp"
#endif
