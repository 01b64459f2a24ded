// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::planning {

/// A table that is printed as text, with aligned columns: lines, each with a list of cells.
class text_table {
 public:
  [[gnu::cold]] void add(std::vector<std::string> cells);
  [[nodiscard]] [[gnu::cold]] std::string text() const;

 private:
  lean_vector<std::size_t> widths_;
  std::vector<std::vector<std::string>> lines_;
};

}  // namespace plait::planning

#if PLAIT_HEADER_ONLY
#include "plait/plan/report/text_table.ipp"
#endif
