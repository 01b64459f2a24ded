// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/mesh/channels.hpp"

#include <algorithm>

#include "plait/core/stable_sort.hpp"
#include "plait/mesh/stream.hpp"

namespace plait::detail {

PLAIT_DECL lean_vector<stage_channel> channels_of_stages(int stages) {
  lean_vector<stage_channel> out;
  auto const add = [&](int from, int to) {
    stage_channel made{from, to};
    auto const meets = [&](stage_channel const& other) {
      return other.round == made.round &&
             (other.from == from || other.to == from || other.from == to || other.to == to);
    };
    while (std::any_of(out.begin(), out.end(), meets)) ++made.round;
    out.push_back(made);
  };
  for (int stage = 0; stage < stages && stages > 1; ++stage) {
    int const next = (stage + 1) % stages;
    add(stage, next);
    if (stages > 2) add(next, stage);
  }
  stable_sort(out, [](auto const& a, auto const& b) { return a.round < b.round; });
  return out;
}

}  // namespace plait::detail
