// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/core/namespaces.hpp"
#include "plait/tensor/view.hpp"

namespace plait::ext {

/// An operand for a device's queue: a block of a matrix in the device's memory, with const elements
/// if it is only read. An operand without data is left out.
template <class T>
struct matrix {
  using element = T;

  T* data = nullptr;
  std::size_t rows = 0, columns = 0;
  std::size_t stride = columns;  ///< elements from one row to the next

  [[nodiscard]] constexpr std::size_t count() const { return rows * columns; }
  /// Returns the address after its last element.
  [[nodiscard]] constexpr T* end() const {
    return rows == 0 ? data : data + (rows - 1) * stride + columns;
  }
};

// For compilers that do not deduce the type of an aggregate.
template <class T>
matrix(T*, std::size_t, std::size_t) -> matrix<T>;
template <class T>
matrix(T*, std::size_t, std::size_t, std::size_t) -> matrix<T>;

/// Returns a row of elements, or a single element; no operand if there is no data.
template <class T>
constexpr matrix<T> row_of(T* data, std::size_t count = 1) {
  return {data, data == nullptr ? std::size_t{0} : std::size_t{1}, count};
}

/// The operands of a product that are stored transposed.
struct transposes {
  bool a = false, b = false;
};

}  // namespace plait::ext
