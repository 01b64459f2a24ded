// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/train/options/parameter_groups.hpp"

#include "plait/core/name_pattern.hpp"

namespace plait::execution {

PLAIT_DECL parameter_group const* first_match(std::vector<parameter_group> const& groups,
                                              std::string_view name) {
  for (auto const& group : groups)
    if (matches(group.pattern, name)) return &group;
  return nullptr;
}

}  // namespace plait::execution
