// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/run/unit_runner.hpp"

namespace plait::execution {

PLAIT_DECL void name_bodies(std::vector<std::string> names, std::span<std::string> forward,
                            std::span<std::string> backward) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].ends_with('.')) names[i].pop_back();
    forward[i] = concat({names[i], " forward"});
    backward[i] = concat({names[i], " backward"});
  }
}

}  // namespace plait::execution
