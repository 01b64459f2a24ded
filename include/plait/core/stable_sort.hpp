// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>

namespace plait::detail {

/// Sorts values by `before(a, b)`; equal values keep their order.
///
/// std::stable_sort takes longer to compile, for each type of list in every program, and calls a
/// deprecated function, so that clang prints a warning. This is a merge sort, which merges adjacent
/// sorted parts and so doubles their length in each pass.
///
/// Cost: n log n, and memory for one copy.
template <class Vector, class Before>
constexpr void stable_sort(Vector& values, Before const& before) {
  std::size_t const count = values.size();
  Vector merged = values;
  for (std::size_t length = 1; length < count; length *= 2) {
    for (std::size_t begin = 0; begin < count; begin += 2 * length) {
      std::size_t const middle = std::min(begin + length, count);
      std::size_t const end = std::min(middle + length, count);
      std::size_t left = begin, right = middle;
      for (std::size_t to = begin; to < end; ++to) {
        bool const is_right =
            left == middle || (right < end && before(values[right], values[left]));
        merged[to] = values[is_right ? right++ : left++];
      }
    }
    values.swap(merged);
  }
}

}  // namespace plait::detail
