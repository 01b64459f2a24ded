// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/train/measures/loss_terms.hpp"

#include <vector>

namespace plait::execution {

PLAIT_DECL std::ptrdiff_t find_bad_label(std::span<std::int32_t const> labels, std::size_t width,
                                         std::size_t classes, bool counts_labels,
                                         double (*count)(std::span<std::int32_t const>)) {
  std::vector<std::int32_t> changed;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (static_cast<std::uint32_t>(labels[i]) < classes) continue;
    auto const row = labels.subspan(i / width * width, width);
    double const counted = count(row);
    bool does_count = counted > 0;
    if (does_count && width > 1 && counts_labels) {
      changed.assign(row.begin(), row.end());
      for (std::size_t const one : {std::size_t{0}, classes - 1}) {  // a loss may ignore one class
        changed[i % width] = static_cast<std::int32_t>(one);
        does_count = does_count && count(changed) <= counted;
      }
    } else if (width > 1) {
      does_count = does_count && labels[i] >= 0;
    }
    if (does_count) return static_cast<std::ptrdiff_t>(i);
  }
  return -1;
}

}  // namespace plait::execution
