// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/static_vector.hpp"
#include "plait/plan/model/program.hpp"
#include "plait/plan/model/stage_split.hpp"
#include "plait/plan/report/memory_text.hpp"
#include "plait/schedule/times.hpp"

namespace plait::planning {

/// Returns true if a leaf has no label of its own: its name then ends with a number or a star.
[[nodiscard]] [[gnu::cold]] inline bool is_unnamed(std::string const& leaf) {
  return leaf.find_first_not_of("0123456789*", leaf.rfind('.') + 1) == std::string::npos;
}

/// Returns the title of a leaf in a list: its name without the dot at the end, and its type if it
/// has no label.
[[nodiscard]] [[gnu::cold]] std::string title_of_leaf(std::string name, std::string_view type,
                                                      bool is_frozen);

/// Returns the layers of units, for example "wte, h.0-2, ln_f". `names`: the names of the leaves.
[[nodiscard]] [[gnu::cold]] std::string text_of_layers(std::vector<std::string> const& names,
                                                       static_view<item> items,
                                                       unit_range const& units);

/// Returns the share of a step in which the first stage does not compute, for example "33 %".
[[nodiscard]] [[gnu::cold]] inline std::string idle_text(schedule_times const& times) {
  return as_percent(static_cast<double>(times.bubble(0)), static_cast<double>(times.makespan()));
}

}  // namespace plait::planning

#if PLAIT_HEADER_ONLY
#include "plait/plan/report/plan_words.ipp"
#endif
