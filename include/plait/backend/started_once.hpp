// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <string>

#include "plait/backend/launcher_variables.hpp"
#include "plait/backend/process_ranks.hpp"
#include "plait/core/error.hpp"

namespace plait::detail {

/// Throws input_error if the environment says that this process is one of several: `backend` has
/// all ranks in one process, so that each would run the whole job. `instead` is the backend whose
/// ranks are processes. An allocation of Slurm starts none, nor do variables that make no sense.
[[gnu::cold]] inline void require_started_once(char const* backend, char const* instead,
                                               find_variable variable = own_environment) {
  auto const* const launcher = find_launcher(variable);
  if (launcher == nullptr) return;
  int processes = 1;
  try {
    processes = launcher_reader(*launcher, variable).read().world_size;
  } catch (input_error const&) {
    return;
  }
  if (processes == 1) return;
  throw input_error({"launch: the program was started as ", processes, " processes (",
                     launcher->world_size, "=", processes, "), but the backend is ", backend,
                     "; write ", instead, "{...}, or start it once; with .in_each_process = true ",
                     "each of them runs the whole job"});
}

}  // namespace plait::detail
