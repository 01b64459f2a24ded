// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace plait::detail {

/// Sorts values by `before(a, b)`; equal ones keep their order.
///
/// For short lists, and for those that are nearly in order, in headers of every program: an
/// algorithm of the library is compiled for each of them, and takes longer to compile.
/// Cost:   the square of their number, once for each if they are in order.
template <class T, class Before>
constexpr void insertion_sort(std::vector<T>& values, Before const& before) {
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (!before(values[i], values[i - 1])) continue;
    T const one = values[i];
    std::size_t at = i;
    for (; at > 0 && before(one, values[at - 1]); --at) values[at] = values[at - 1];
    values[at] = one;
  }
}

}  // namespace plait::detail
