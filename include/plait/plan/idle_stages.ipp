// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/plan/idle_stages.hpp"

namespace plait::planning {

PLAIT_DECL unit_range stage_cut::units(int chunk, int all) const {
  auto const at = std::size_t(chunk);
  return {begins[at], at + 1 == begins.size() ? all : begins[at + 1]};
}

PLAIT_DECL std::string judged_model::name_of(int leaf) const {
  auto text = names[std::size_t(leaf)];
  if (text.empty()) return "0";  // a model of one layer names none
  text.pop_back();
  return text;
}

}  // namespace plait::planning
