// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/plan/report/program_text.hpp"

#include <cstddef>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/plan/report/memory_text.hpp"
#include "plait/plan/report/text_table.hpp"
#include "plait/plan/schedule/synchronization.hpp"

namespace plait::planning {

// Returns the text of an operation, for example "backward of units 2 to 3" or "gradients:
// all_reduce over data of 64 KiB".
PLAIT_DECL std::string text_of_operation(program_operation const& of,
                                         lean_vector<transfer> const& list,
                                         element_sizes const& sizes) {
  std::string text = to_string(of.what);
  if (of.row >= 0) {
    auto const& what = list[std::size_t(of.row)];
    auto const row = what.row();
    text = concat({to_string(what.place), ": ", to_string(row.moves), " over ", to_string(row.over),
                   " of ", with_unit(what.count * sizes.of(what.element))});
    if (row.moves == collective::send)
      text += concat({" from stage ", what.from.stage(), " to ", what.to.stage()});
  }
  if (of.bucket >= 0) text += concat({", bucket ", of.bucket});
  if (of.units.end - of.units.begin == 1) text += concat({" of unit ", of.units.begin});
  else if (of.units.end > 0)
    text += concat({" of units ", of.units.begin, " to ", of.units.end - 1});
  return text;
}

PLAIT_DECL std::string text_of_program(step_program const& program,
                                       lean_vector<transfer> const& list,
                                       element_sizes const& sizes) {
  std::vector<std::string> waits(program.operations.size());
  for (auto const& wait : plan_waits(program.touched)) {
    auto& text = waits[std::size_t(wait.waiting)];
    text += (text.empty() ? "" : ", ") + std::to_string(wait.awaited + 1);
  }
  text_table table;
  table.add({"", "stream", "operation", "microbatch", "waits for"});
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    auto const& now = program.operations[i];
    table.add({std::to_string(i + 1), std::string(to_string(program.touched[i].on)),
               text_of_operation(now, list, sizes),
               now.microbatch < 0 ? "" : std::to_string(now.microbatch), waits[i]});
  }
  return table.text();
}

}  // namespace plait::planning
