// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/train/state_ages.hpp"

#include <algorithm>
#include <utility>

namespace plait::execution {

PLAIT_DECL void state_ages::set(lean_vector<std::int64_t> ages) {
  bool has_any = false, are_alike = true;
  for (auto const age : ages) {
    if (age == no_state) continue;
    are_alike = are_alike && (!has_any || age == oldest_);
    oldest_ = has_any ? std::max(oldest_, age) : age;
    has_any = true;
  }
  younger_by_.clear();
  if (are_alike) return;
  for (auto& age : ages) age = age == no_state ? 0 : oldest_ - age;
  younger_by_ = std::move(ages);
}

PLAIT_DECL void state_ages::set(std::int64_t oldest, lean_vector<std::int64_t> differences) {
  oldest_ = oldest;
  younger_by_ = std::move(differences);
}

}  // namespace plait::execution
