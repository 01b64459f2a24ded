// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/started_once.hpp"

#include "plait/backend/process_ranks.hpp"
#include "plait/core/error.hpp"

namespace plait::detail {

PLAIT_DECL void require_started_once(char const* backend, char const* instead,
                                     find_variable variable) {
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
                     "each process runs the whole job"});
}

}  // namespace plait::detail
