// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/run/listed_operations.hpp"

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"

namespace plait::execution {

PLAIT_DECL void fail_move(std::string const& layer, form_info const& form, made_move const& made) {
  auto const row = [](placement from, placement to) {
    return concat({to_string(from), " -> ", to_string(to)});
  };
  std::string const number = std::to_string(made.number + 1);
  std::string text = concat({"ops.move in layer ", layer, ", form \"", form.label.text(), "\": "});
  if (made.from != made.to)
    text += concat({"move ", number, " of the body is ", row(made.from, made.to), " of ",
                    made.count, " values in ", made.rows, " rows, but "});
  else text += concat({"the body ends without move ", number, ", and "});
  int listed = 0;
  form_info::inner_move const* there = nullptr;
  for (int i = 0; i < form.inner_count - form.sum_count; ++i)
    if (auto const& each = form.inner[std::size_t(i)]; each.body == made.body)
      if (listed++ == made.number) there = &each;
  if (there != nullptr)
    text += concat({"the form lists there ", row(there->from, there->to), " of ", there->width,
                    " values per row"});
  else text += concat({"the form lists only ", listed, " moves"});
  throw error({text, "; write one inner<From, To, Width> for each move, in their order"});
}

}  // namespace plait::execution
