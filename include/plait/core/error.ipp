// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/error.hpp"

namespace plait {

PLAIT_DECL error::error(std::initializer_list<ext::text_part> parts)
    : std::runtime_error(ext::concat(parts)) {}

}  // namespace plait
