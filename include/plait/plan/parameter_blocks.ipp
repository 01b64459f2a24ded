// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/plan/parameter_blocks.hpp"

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

}  // namespace plait::planning
