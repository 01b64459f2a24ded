// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/run/forward_operations.hpp"

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
  if (made.number < form.inner_count - form.sum_count) {
    auto const& listed = form.inner[std::size_t(made.number)];
    text += concat({"the form lists there ", row(listed.from, listed.to), " of ", listed.width,
                    " values per row"});
  } else {
    text += concat({"the form lists only ", form.inner_count - form.sum_count, " of them"});
  }
  throw error({text, "; write one inner<From, To, Width> for each move, in their order"});
}

}  // namespace plait::execution
