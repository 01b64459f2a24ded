// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/plan/schedule/synchronization.hpp"

#include "plait/core/concat.hpp"

namespace plait::ext {

PLAIT_DECL std::string to_string(wait_site const& site) {
  constexpr std::array words{"forward", "recompute", "backward", "layer", "step"};
  auto const name = [&](int number) {
    return site.where == wait_site::part::step ? planning::site_text(number)
                                               : std::to_string(number);
  };
  return concat({words[static_cast<std::size_t>(site.where)], ": ", name(site.waiting),
                 " waits for ", name(site.awaited)});
}

}  // namespace plait::ext

namespace plait::detail {

PLAIT_DECL ext::lean_vector<ext::planned_wait> plan_waits_at_run_time(
    ext::lean_vector<ext::stream_operation> const& operations) {
  return planned_waits(operations);
}

}  // namespace plait::detail
