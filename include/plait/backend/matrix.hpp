// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/core/namespaces.hpp"
#include "plait/tensor/view.hpp"

namespace plait::ext {

/// An operand of an operation of a device's queue: a block of a row-major matrix in the device's
/// memory, with const elements if it is only read. A null `data` means that an optional operand is
/// absent.
template <class T>
struct matrix {
  using element = T;

  T* data = nullptr;
  std::size_t rows = 0, columns = 0;
  std::size_t stride = columns;  ///< elements from one row to the next

  [[nodiscard]] constexpr std::size_t count() const { return rows * columns; }
  /// Returns the address after the last element of the block.
  [[nodiscard]] constexpr T* end() const {
    return rows == 0 ? data : data + (rows - 1) * stride + columns;
  }
};

// Deduction guides for compilers that cannot deduce the type of an aggregate.
template <class T>
matrix(T*, std::size_t, std::size_t) -> matrix<T>;
template <class T>
matrix(T*, std::size_t, std::size_t, std::size_t) -> matrix<T>;

/// Returns `count` elements as a matrix of one row; an absent operand if `data` is null.
template <class T>
constexpr matrix<T> row_of(T* data, std::size_t count = 1) {
  return {data, data == nullptr ? std::size_t{0} : std::size_t{1}, count};
}

/// Flags for the operands a and b of a matrix product: true if the operand is stored transposed.
struct transposes {
  bool a = false, b = false;
};

}  // namespace plait::ext
