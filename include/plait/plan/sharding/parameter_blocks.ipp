// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/plan/sharding/parameter_blocks.hpp"

namespace plait::planning {

PLAIT_DECL lean_vector<parameter_rectangle> parameter_block::in_block() const {
  auto out = rectangles;
  for (auto& each : out) each.place -= offset;
  return out;
}

PLAIT_DECL std::size_t parameter_block::padding() const {
  std::size_t filled = 0;
  for (auto const& each : rectangles) filled += each.count();
  return count - filled;
}

PLAIT_DECL std::string name_of_copy(std::string pattern, int copy) {
  if (auto const star = pattern.find('*'); star != std::string::npos)
    return concat({std::string_view(pattern).substr(0, star), copy,
                   std::string_view(pattern).substr(star + 1)});
  return pattern;
}

PLAIT_DECL lean_vector<parameter_block> blocks_of_layout(static_view<item> items,
                                                         static_view<parameter_entry> entries,
                                                         static_view<unit_range> chunks,
                                                         parameter_layout const& layout,
                                                         std::vector<std::string> const& names,
                                                         int block, int tensor_ranks) {
  lean_vector<parameter_block> out;
  for (int unit = 0, item = 0; unit < count_units(items); ++unit) {
    if (unit == items[item].units().end) ++item;
    int const copy = unit - items[item].first_unit;
    if (std::any_of(chunks.begin(), chunks.end(), [&](unit_range of) { return of.contains(unit); }))
      for (int e = 0; e < entries.size(); ++e) {
        auto const& entry = entries[e];
        if (entry.item != item || entry.owner >= 0) continue;
        int const number = number_of_tensor(items, entries, one_if_owner, e, copy);
        std::size_t const offset = layout.offset(e, unit);
        auto rectangles = rectangles_of(entry, block, tensor_ranks);
        for (auto& each : rectangles) each.place += offset;
        out.push_back({e, copy, number, name_of_copy(names[std::size_t(e)], copy), offset,
                       entry.local_count(), std::move(rectangles)});
      }
  }
  return out;
}

}  // namespace plait::planning
