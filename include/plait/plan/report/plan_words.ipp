// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/plan/report/plan_words.hpp"

#include <cstddef>

#include "plait/core/concat.hpp"

namespace plait::planning {

PLAIT_DECL std::string title_of_leaf(std::string name, std::string_view type, bool is_frozen) {
  if (!name.empty()) name.pop_back();
  if (is_unnamed(name)) name += concat({(name.empty() ? "(" : " ("), type, ")"});
  if (is_frozen) name += " (frozen)";
  return name;
}

PLAIT_DECL std::string text_of_layers(std::vector<std::string> const& names,
                                      static_view<item> items, unit_range const& units) {
  std::string out;
  for (auto const& piece : items) {
    auto const here = overlap(piece.units(), units);
    if (here.count() == 0 || piece.first_leaf == piece.end_leaf) continue;
    auto name = names[std::size_t(piece.first_leaf)];
    if (piece.repeated) {
      int const first = here.begin - piece.first_unit;
      name = concat({name.substr(0, name.find('*')), first});
      if (here.count() > 1) name += concat({"-", first + here.count() - 1});
    } else if (!name.empty()) {
      name.pop_back();
    }
    out += (out.empty() ? "" : ", ") + name;
  }
  return out;
}

}  // namespace plait::planning
