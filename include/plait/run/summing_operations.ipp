// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/run/summing_operations.hpp"

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"

namespace plait::execution {

PLAIT_DECL void fail_sum(std::string const& layer, form_info const& form, int made,
                         std::size_t count, int listed, std::size_t width) {
  auto const number = std::to_string(made + 1);
  throw error({"ops.sum_over_samples in layer ", layer, ", form \"", form.label.text(), "\": ",
               (count == 0 ? concat({"the body ends without sum ", number})
                           : concat({"sum ", number, " of the body is of ", count, " values"})),
               ", but the form lists ",
               (made < listed ? concat({width, " values for it"}) : concat({listed, " sums"})),
               "; write one batch_sum<At, Width> for each, in their order"});
}

}  // namespace plait::execution
