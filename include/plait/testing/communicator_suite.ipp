// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/testing/communicator_suite.hpp"

namespace plait::testing::detail {

PLAIT_DECL std::vector<std::string> left_out(communicator_suite_options const& options) {
  std::vector<std::string> out;
  auto const say = [&](bool is_checked, char const* option, char const* law) {
    if (!is_checked)
      out.push_back(ext::concat({"not checked, as options.", option, " says: ", law}));
  };
  say(options.sums_in_rank_order, "sums_in_rank_order",
      "sums have the bits of additions in rank order");
  say(options.maximum_keeps_nan, "maximum_keeps_nan", "a maximum keeps nan");
  say(options.compares_calls, "compares_calls", "ranks whose calls differ get an exception");
  say(options.compares_equal_groups, "compares_equal_groups",
      "calls to groups with equal members over different axes are compared");
  say(options.has_channels, "has_channels", "a post does not wait for the other rank");
  say(options.errors, "errors", "mistakes end the launch with their error");
  say(options.rounds > 0, "rounds", "groups in turn");
  return out;
}

PLAIT_DECL std::vector<mesh> meshes_of(int ranks) {
  mesh line, grid;
  line.add(axis::data, ranks);
  int rest = ranks;
  for (axis const which : {axis::data, axis::stage})
    for (int factor = 2; factor < rest && !grid.has(which); ++factor)
      if (rest % factor == 0) grid.add(which, factor), rest /= factor;
  grid.add(axis::tensor, rest);
  if (grid.dimension_count == 1) return {line};
  return {line, grid};
}

PLAIT_DECL std::vector<mesh> stage_meshes_of(int ranks) {
  std::vector<mesh> out;
  for (int const pipelines : {1, 2}) {
    if (ranks % pipelines != 0 || ranks / pipelines < 2) continue;
    mesh& grid = out.emplace_back();
    grid.add(axis::stage, ranks / pipelines);
    if (pipelines > 1) grid.add(axis::data, pipelines);
  }
  return out;
}

}  // namespace plait::testing::detail
