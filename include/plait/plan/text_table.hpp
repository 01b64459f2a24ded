// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "plait/core/lean_vector.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::planning {

/// Lines of cells, printed with their columns aligned.
class text_table {
 public:
  [[gnu::cold]] void add(std::vector<std::string> cells) {
    if (widths_.size() < cells.size()) widths_.resize(cells.size());
    for (std::size_t i = 0; i < cells.size(); ++i)
      widths_[i] = std::max(widths_[i], cells[i].size());
    lines_.push_back(std::move(cells));
  }
  [[nodiscard]] [[gnu::cold]] std::string text() const {
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

 private:
  lean_vector<std::size_t> widths_;
  std::vector<std::vector<std::string>> lines_;
};

}  // namespace plait::planning
