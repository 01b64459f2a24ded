// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/error.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// Two operations touch the same bytes, one of them writes, and nothing orders them; or an
/// operation reads bytes that were never written. `what()` names the operations, their marks and
/// the missing wait.
struct race_error : error {
  using error::error;
};

}  // namespace plait::ext
