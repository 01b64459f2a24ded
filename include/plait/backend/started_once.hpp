// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plait/backend/launcher_variables.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// Throws input_error if the environment says that this process is one of several: `backend` has
/// all ranks in one process, so that each process would run the whole job. `instead` is the backend
/// whose ranks are processes. An allocation of Slurm alone starts no processes, and variables
/// without a sensible value are ignored.
[[gnu::cold]] void require_started_once(char const* backend, char const* instead,
                                        find_variable variable = own_environment);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/started_once.ipp"
#endif
