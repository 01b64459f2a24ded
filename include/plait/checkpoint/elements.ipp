// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/checkpoint/elements.hpp"

namespace plait::detail {

PLAIT_DECL std::vector<std::size_t> sizes_in_files(parameter_info const& info) {
  if (info.rank_in_files == 0) return sizes_of(info, info.rows, info.columns);
  return {info.lengths_in_files.begin(), info.lengths_in_files.begin() + info.rank_in_files};
}

PLAIT_DECL stored_type type_in_files(std::size_t element_bytes) {
  return element_bytes == 8   ? stored_type::f64
         : element_bytes == 4 ? stored_type::f32
                              : stored_type::bf16;
}

}  // namespace plait::detail
