// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/testing/layer_trial.hpp"

#include <cmath>

namespace plait::testing::detail {

PLAIT_DECL bool is_finite(trial const& of) {
  return std::ranges::all_of(of.ranks[0].once.output,
                             [](double value) { return std::isfinite(value); });
}

PLAIT_DECL std::vector<double> assemble(trial const& of, pass rank_record::* which,
                                        std::size_t parameter, bool& disagree) {
  auto const& entry = of.entries[parameter];
  auto const ranks = static_cast<int>(of.ranks.size());
  std::vector<double> out(entry.info.count());
  std::vector<bool> seen(out.size());
  for (int r = 0; r < ranks; ++r) {
    auto const& arena = (of.ranks[static_cast<std::size_t>(r)].*which).gradients;
    auto const put = [&](std::size_t to, std::size_t local, std::size_t length) {
      for (std::size_t i = 0; i < length; ++i) {
        double const value = arena[of.parameters[parameter].offset + local + i];
        if (seen[to + i] && std::memcmp(&out[to + i], &value, sizeof value) != 0) disagree = true;
        out[to + i] = value;
        seen[to + i] = true;
      }
    };
    for (auto const& each : planning::rectangles_of(entry, r, ranks, true))
      planning::for_each_run(each, entry.info.columns, put);
  }
  return out;
}

}  // namespace plait::testing::detail
