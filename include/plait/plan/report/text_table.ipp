// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/plan/report/text_table.hpp"

#include <algorithm>
#include <utility>

namespace plait::planning {

PLAIT_DECL void text_table::add(std::vector<std::string> cells) {
  if (widths_.size() < cells.size()) widths_.resize(cells.size());
  for (std::size_t i = 0; i < cells.size(); ++i) widths_[i] = std::max(widths_[i], cells[i].size());
  lines_.push_back(std::move(cells));
}

PLAIT_DECL std::string text_table::text() const {
  std::string out;
  for (auto const& line : lines_) {
    std::string row = "  ";
    for (std::size_t i = 0; i < line.size(); ++i)
      row += line[i] + std::string(widths_[i] - line[i].size() + 2, ' ');
    row.erase(row.find_last_not_of(' ') + 1);
    out += row + '\n';
  }
  return out;
}

}  // namespace plait::planning
