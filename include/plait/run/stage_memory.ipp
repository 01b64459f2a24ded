// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/run/stage_memory.hpp"

#include <algorithm>

namespace plait::execution {

PLAIT_DECL lean_vector<parameter_place> places_of_parameters(
    static_view<item> items, static_view<parameter_entry> entries, parameter_rules const& rules,
    static_view<unit_range> chunks, parameter_layout const& parameters, coordinates const& place) {
  lean_vector<parameter_place> out(std::size_t(parameters.units) * std::size_t(entries.size()));
  for (auto const& chunk : chunks)
    for (int e = 0; e < entries.size(); ++e) {
      auto const& entry = entries[e];
      auto const& item = items[entry.item];
      int const end = std::min(chunk.end, item.first_unit + item.count);
      for (int unit = std::max(chunk.begin, item.first_unit); unit < end; ++unit)
        out[std::size_t(unit) * std::size_t(entries.size()) + std::size_t(e)] = {
            parameters.place_in(parameters.parameters_at, parameters.offset(e, unit)),
            parameters.place_in(parameters.gradients_at, parameters.gradient_offset(e, unit)),
            entry.masked() && !holds_the_one_copy(placements_of(entry, rules).summed, place)};
    }
  return out;
}

}  // namespace plait::execution
