// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "plait/mesh/axis.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/plan/bytes_sent.hpp"
#include "plait/plan/drawn_plan.hpp"
#include "plait/plan/svg.hpp"

namespace plait::planning {

/// What a plan is of, in the words of `explain`.
[[nodiscard]] [[gnu::cold]] inline std::string subject_of(drawn_plan const& of) {
  int const microbatches = of.load.microbatches;
  return to_string(of.numbers.grid) + ", " + std::to_string(microbatches) + " microbatch" +
         (microbatches == 1 ? "" : "es") + " of " + std::to_string(of.load.rows) + " rows, " +
         std::to_string(of.parameter_count) + " parameters of " +
         std::to_string(of.numbers.element_bytes) + " bytes";
}

/// The heading of each picture; returns where the rest begins.
[[gnu::cold]] inline int draw_heading(drawing& into, std::string const& title,
                                      std::string const& below) {
  into.text(drawing::margin, drawing::margin, title, {.size = 18, .bold = true});
  into.text(drawing::margin, drawing::margin + 26, below, {.size = 12, .ink = colour::muted});
  into.say(title + ": " + below + ".");
  return drawing::margin + 26 + 30;
}

/// The groups over a set of axes, and what one of their ranks sends in a step, at most.
struct drawn_groups {
  axis_set over{};
  int ranks = 1;
  traffic_need sent{};
};
[[nodiscard]] [[gnu::cold]] inline std::vector<drawn_groups> groups_of(drawn_plan const& of) {
  std::vector<drawn_groups> out;
  for (unsigned bits = 1; bits < axis_set_count; ++bits) {
    drawn_groups now;
    now.over.bits = bits;
    now.ranks = of.numbers.grid.size(now.over);
    for (std::size_t stage = 0; now.ranks > 1 && stage < of.exchanges.size(); ++stage) {
      auto const here =
          bytes_sent_by_list(of.exchanges[stage], of.sizes, now.over, now.ranks, int(stage));
      now.sent = {std::max(now.sent.forward, here.forward),
                  std::max(now.sent.backward, here.backward), std::max(now.sent.step, here.step)};
    }
    if (now.sent.total() == 0) continue;
    auto place = out.end();  // behind those of the same ranks, if there are some
    for (auto at = out.begin(); at != out.end(); ++at)
      if (of.numbers.grid.of_several_ranks(at->over) == of.numbers.grid.of_several_ranks(now.over))
        place = at + 1;
    out.insert(place, now);
  }
  return out;
}

}  // namespace plait::planning
