// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include <plait/backend/process/processes.hpp>

#include "train_gpt/registry.hpp"

namespace train_gpt::backends {

/// The backend whose ranks are processes, with any engine.
struct process {
  static constexpr char const* name = process_backend;
  static std::string device() { return plait::host_maths::kind(); }
  static plait::processes make(request const& wanted) {
    plait::processes out{.data_ranks = wanted.data_ranks, .engine = wanted.engine};
    if (wanted.timeout > 0)
      out.timeout = out.start_timeout = std::chrono::ceil<std::chrono::milliseconds>(
          std::chrono::duration<double>(wanted.timeout));
    return out;
  }
};

}  // namespace train_gpt::backends
