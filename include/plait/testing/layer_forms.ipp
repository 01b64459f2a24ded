// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/testing/layer_forms.hpp"

#include "plait/core/concat.hpp"

namespace plait::testing::detail {

PLAIT_DECL std::string form_choice::text() const {
  if (!pin.empty()) return ext::concat({"form ", pin.text()});
  return sharded ? "chosen forms with sequence shards" : "chosen forms";
}

}  // namespace plait::testing::detail
