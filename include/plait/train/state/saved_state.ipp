// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/train/state/saved_state.hpp"

namespace plait::ext {

PLAIT_DECL bool state_source::contains(std::string_view name) const {
  (void)name;
  return true;
}

PLAIT_DECL std::optional<std::int64_t> state_source::age(std::string_view name) const {
  (void)name;
  return std::nullopt;
}

}  // namespace plait::ext
