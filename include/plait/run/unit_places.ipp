// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/run/unit_places.hpp"

#include "plait/core/concat.hpp"

namespace plait::execution {

PLAIT_DECL void name_bodies(std::vector<std::string> names, std::span<std::string> forward,
                            std::span<std::string> backward) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].ends_with('.')) names[i].pop_back();
    forward[i] = concat({names[i], " forward"});
    backward[i] = concat({names[i], " backward"});
  }
}

PLAIT_DECL lean_vector<unit_place> places_of_units(
    static_view<item> items, lean_vector<chunk_arena> const& chunks,
    recompute_table const& recomputes, std::array<std::size_t, granularities> const* activations,
    std::size_t const* gradients) {
  lean_vector<unit_place> places(std::size_t(count_units(items)));
  for (auto const& chunk : chunks) {
    unit_place next;
    for (int i = 0; i < items.size(); ++i) {
      auto const here = within(items[i].units(), chunk.units);
      for (int unit = here.begin; unit < here.end; ++unit) {
        next.stash_end = activations[i][std::size_t(recomputes.of(unit))];
        places[std::size_t(unit)] = next;
        next.activations += next.stash_end;
        next.gradients += gradients[i];
      }
    }
  }
  return places;
}

}  // namespace plait::execution
