// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <plait/backend/process/processes.hpp>

#include "train_gpt/registry.hpp"

namespace train_gpt::backends {

/// One code for every engine.
struct process {
  static constexpr char const* name = process_backend;
  static plait::processes make(request const& wanted) {
    return {.data_ranks = wanted.data_ranks, .engine = wanted.engine};
  }
};

}  // namespace train_gpt::backends
