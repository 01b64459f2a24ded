// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/draw/picture_parts.hpp"

#include "plait/core/concat.hpp"
#include "plait/mesh/mesh.hpp"

namespace plait::planning {

PLAIT_DECL std::string subject_of(drawn_plan const& of) {
  int const microbatches = of.load.microbatches;
  return concat({to_string(of.numbers.grid), ", ", microbatches, " microbatch",
                 (microbatches == 1 ? "" : "es"), " of ", of.load.rows, " rows, ",
                 of.parameter_count, " parameters of ", of.numbers.element_bytes, " bytes"});
}

PLAIT_DECL int draw_heading(drawing& into, std::string const& title, std::string const& below) {
  into.text(drawing::margin, drawing::margin, title, {.size = 18, .bold = true});
  into.text(drawing::margin, drawing::margin + 26, below, {.size = 12, .ink = colour::muted});
  into.say(concat({title, ": ", below, "."}));
  return drawing::margin + 26 + 30;
}

}  // namespace plait::planning
