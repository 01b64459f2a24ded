// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/error.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// The exception for a race: two operations access the same bytes, at least one of them writes, and
/// nothing orders the two; or an operation reads bytes that were never written. `what()` names the
/// operations, their marks and the missing wait.
struct race_error : error {
  using error::error;
};

}  // namespace plait::ext
