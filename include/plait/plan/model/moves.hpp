// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/namespaces.hpp"
#include "plait/placement/transition.hpp"

namespace plait::planning {

/// The two directions of a pass through the model.
enum class direction : bool { forward, backward };

/// Returns the row of the table of transitions for a value that one layer leaves in placement
/// `from` and the next layer reads in placement `to`; for `direction::backward`, the row for the
/// value's gradient. All code that computes the costs of such moves, or that lists, orders or
/// carries out the moves, calls this function. Example: from `partial` to `invariant` is an
/// all_reduce forward and nothing backward.
constexpr transition row_of_move(placement from, placement to, direction way) {
  auto const row = transition_between(from, to);
  return way == direction::forward ? row : adjoint(row);
}

}  // namespace plait::planning
