// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plait/core/header_only.hpp"
#include "plait/doctor/machine.hpp"

namespace plait::detail {

/// Returns the first mistake in a machine, such as "0 for 'hosts[1].devices'; it must be a whole
/// number from 1 to 10^18"; "" if a machine file can contain the machine. Mistakes are numbers out
/// of range, texts that are not UTF-8, an invalid date, an element that a list has twice, ranks on
/// unknown hosts, and matrices that are not square.
[[nodiscard]] [[gnu::cold]] std::string mistake_in(ext::machine const& of);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/doctor/machine_rules.ipp"
#endif
