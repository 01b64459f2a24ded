// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/namespaces.hpp"
#include "plait/placement/transition.hpp"

namespace plait::planning {

/// The two ways through a model.
enum class direction : bool { forward, backward };

/// The row of the table by which a value that one layer leaves placed `from` and the next one wants
/// placed `to` is moved, and, on the way back, its gradient. The code that prices, lists, times,
/// stores or carries out moves within a unit asks here.
constexpr transition row_of_move(placement from, placement to, direction way) {
  auto const row = transition_between(from, to);
  return way == direction::forward ? row : adjoint(row);
}

}  // namespace plait::planning
