// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/placement/batch_slicing.hpp"

#include "plait/core/concat.hpp"

namespace plait::ext {

PLAIT_DECL std::string text_of_shares(static_view<int> const& shares) {
  std::string out;
  for (int const share : shares) out += concat({(out.empty() ? "shares<" : ", "), share});
  return out.empty() ? out : concat({out, ">"});
}

}  // namespace plait::ext
