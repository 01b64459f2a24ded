// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plait/backend/launcher_variables.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// Throws input_error if the environment says that a launcher has started several processes of this
/// program. All ranks of `backend` are in one process, so each process would run the whole job. The
/// message recommends `instead`, the backend whose ranks are processes. Variables of a Slurm
/// allocation without a launcher, and variables without a valid value, are ignored.
[[gnu::cold]] void require_started_once(char const* backend, char const* instead,
                                        find_variable variable = own_environment);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/started_once.ipp"
#endif
