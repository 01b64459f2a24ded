// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <plait/backend/host/threads.hpp>

#include "train_gpt/registry.hpp"

namespace train_gpt::backends {

struct host {
  static constexpr char const* name = "host";
  static std::string device() { return plait::host_maths::kind(); }
  static plait::threads make(request const& wanted) { return {.data_ranks = wanted.data_ranks}; }
};

}  // namespace train_gpt::backends
