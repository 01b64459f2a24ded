// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/train/state/state_ages.hpp"

#include <algorithm>
#include <utility>

namespace plait::execution {

PLAIT_DECL void state_ages::set(lean_vector<std::int64_t> ages) {
  bool has_any = false, are_alike = true;
  for (auto const age : ages) {
    if (age == no_state) continue;
    are_alike = are_alike && (!has_any || age == oldest_);
    oldest_ = has_any ? std::max(oldest_, age) : age;
    has_any = true;
  }
  younger_by_.clear();
  if (are_alike) return;
  for (auto& age : ages) age = age == no_state ? 0 : oldest_ - age;
  younger_by_ = std::move(ages);
}

PLAIT_DECL void state_ages::set(std::int64_t oldest, lean_vector<std::int64_t> differences) {
  oldest_ = oldest;
  younger_by_ = std::move(differences);
}

PLAIT_DECL lean_vector<aged_block> blocks_of_one_age(static_view<parameter_entry> entries,
                                                     lean_vector<parameter_block> const& parameters,
                                                     owned_block const& block,
                                                     state_ages const& ages) {
  lean_vector<aged_block> out{{block}};
  if (ages.are_equal()) return out;
  struct begin {
    std::size_t offset = 0;
    std::int64_t younger_by = 0;
  };
  lean_vector<begin> begins;
  for (auto const& parameter : parameters)
    if (entries[parameter.entry].has_gradient())
      if (auto const common = overlap(block.elements, parameter); common.count > 0)
        begins.push_back(
            {common.offset - block.elements.offset, ages.younger_by(parameter.number)});
  plait::detail::stable_sort(begins,
                             [](auto const& a, auto const& b) { return a.offset < b.offset; });
  for (std::size_t i = 0; i < begins.size(); ++i) {
    auto& last = out.back();
    if (i == 0) last.younger_by = begins[0].younger_by;
    if (last.younger_by == begins[i].younger_by) continue;
    std::size_t const offset = begins[i].offset;
    std::size_t const kept = block.elements.offset + offset - last.block.elements.offset;
    last.block.elements.count = kept;
    out.push_back({{{block.elements.offset + offset, block.elements.count - offset},
                    block.state_offset + offset,
                    block.parameters_at + offset,
                    block.gradients_at + offset},
                   begins[i].younger_by});
  }
  return out;
}

}  // namespace plait::execution
