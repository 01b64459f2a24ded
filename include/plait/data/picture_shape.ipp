// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/data/picture_shape.hpp"

#include "plait/core/concat.hpp"

namespace plait::detail {

PLAIT_DECL std::string to_text(picture_shape const& of) {
  return concat({of.channels, " x ", of.height, " x ", of.width});
}

}  // namespace plait::detail
