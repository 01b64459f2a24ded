// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/random_normal.hpp"

namespace plait::detail {

PLAIT_DECL void normal_groups(random_key key, std::uint64_t group, std::size_t groups,
                              double* out) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return normal_groups_avx2(key, group, groups, out);
#endif
  normal_lanes<false>::fill(key, group, groups, out);
}

}  // namespace plait::detail

namespace plait::ext {

PLAIT_DECL double random_normal(random_key key, std::uint64_t index) {
  double group[8];
  detail::normal_groups(key, index / 8, 1, group);
  return group[index % 8];
}

}  // namespace plait::ext
