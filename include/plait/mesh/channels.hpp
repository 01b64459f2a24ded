// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "plait/core/lean_vector.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/stable_sort.hpp"
#include "plait/mesh/stream.hpp"

namespace plait::detail {

/// A way for messages from one stage of a pipeline to a neighbour.
struct stage_channel {
  int from = 0, to = 0;
  int round = 0;  ///< a stage is in one channel of each
};

/// All of them, for backends that make something for each: round by round, in each of which all
/// ranks can take part at one time.
[[nodiscard]] [[gnu::cold]] inline lean_vector<stage_channel> channels_of_stages(int stages) {
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
