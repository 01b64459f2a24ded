// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plait/core/concat.hpp"
#include "plait/core/static_vector.hpp"
#include "plait/mesh/axis.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/plan/bytes_sent.hpp"
#include "plait/plan/drawn_plan.hpp"
#include "plait/plan/svg.hpp"

namespace plait::planning {

/// What a plan is of, in the words of `explain`.
[[nodiscard]] [[gnu::cold]] inline std::string subject_of(drawn_plan const& of) {
  int const microbatches = of.load.microbatches;
  return concat({to_string(of.numbers.grid), ", ", microbatches, " microbatch",
                 (microbatches == 1 ? "" : "es"), " of ", of.load.rows, " rows, ",
                 of.parameter_count, " parameters of ", of.numbers.element_bytes, " bytes"});
}

/// The heading of each picture; returns where the rest begins.
[[gnu::cold]] inline int draw_heading(drawing& into, std::string const& title,
                                      std::string const& below) {
  into.text(drawing::margin, drawing::margin, title, {.size = 18, .bold = true});
  into.text(drawing::margin, drawing::margin + 26, below, {.size = 12, .ink = colour::muted});
  into.say(concat({title, ": ", below, "."}));
  return drawing::margin + 26 + 30;
}

/// What the ranks send, as `explain` says it.
[[nodiscard]] [[gnu::cold]] inline static_vector<group_traffic, axis_set_count> traffic_of(
    drawn_plan const& of) {
  return traffic_of(of.exchanges, of.sizes, of.numbers.grid);
}

}  // namespace plait::planning
