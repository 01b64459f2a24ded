// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/schedule/operation.hpp"

#include "plait/core/concat.hpp"

namespace plait::ext {

PLAIT_DECL std::string to_string(scheduled_work op) {
  return std::string{to_string(op.kind)} + ' ' + std::to_string(op.microbatch) +
         (op.chunk == 0 ? "" : concat({" of chunk ", op.chunk}));
}

}  // namespace plait::ext
