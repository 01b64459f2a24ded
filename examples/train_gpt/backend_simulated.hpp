// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <plait/backend/simulated/simulated.hpp>

#include "train_gpt/registry.hpp"

namespace train_gpt {

struct simulation {
  plait::simulated backend;
};

}  // namespace train_gpt

namespace train_gpt::backends {

struct simulated {
  static constexpr char const* name = "simulated";
  static std::string device() { return plait::host_maths::kind(); }
  static plait::simulated make(request const& wanted) {
    if (wanted.simulated != nullptr) return wanted.simulated->backend;
    return {.data_ranks = wanted.data_ranks, .seed = wanted.schedule_seed};
  }
};

}  // namespace train_gpt::backends
