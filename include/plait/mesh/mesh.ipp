// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/mesh/mesh.hpp"

#include <algorithm>

#include "plait/core/concat.hpp"

namespace plait::ext {

PLAIT_DECL std::string to_string(mesh const& grid) {
  std::string text;
  for (int i = 0; i < grid.dimension_count; ++i) {
    auto const& extent = grid.dimensions[static_cast<std::size_t>(i)];
    text += concat({i == 0 ? "" : " x ", to_string(extent.which), " ",
                    extent.size == 0 ? text_part("at launch") : text_part(extent.size)});
  }
  return text.empty() ? "one rank" : text;
}

PLAIT_DECL mesh mesh_at_launch(mesh const& planned, int data_ranks, int processors,
                               bool are_ranks) {
  bool const all = data_ranks == all_processors || (are_ranks && data_ranks == 0);
  if (!planned.is_complete()) {
    mesh known;
    for (int i = 0; i < planned.dimension_count; ++i)
      if (auto const& [which, size] = planned.dimensions[std::size_t(i)]; size != 0)
        known.add(which, size);
    int const others = known.world_size(), fit = std::max(1, processors / others);
    if (all && are_ranks && fit * others != processors)
      throw input_error(
          {"launch: ", processors, (processors == 1 ? " process is" : " processes are"),
           " not a multiple of the ", others, " ranks of ", to_string(known), "; start ",
           fit * others, (processors < others ? "" : concat({" or ", (fit + 1) * others}))});
    int const groups = all ? fit : 1;
    return planned.with_ranks_at_launch(
        all || data_ranks == 0 ? groups * planned.known_batch_ranks() : data_ranks);
  }
  if (!all && data_ranks != 0 && data_ranks != planned.known_batch_ranks())
    throw input_error({"launch: the backend is given ", data_ranks,
                       " data ranks, but the policy has ", planned.size(axis::data),
                       " in its mesh '", to_string(planned),
                       "'; leave data_ranks out, or write data_parallel<>, which takes the number "
                       "at launch"});
  return planned;
}

}  // namespace plait::ext
