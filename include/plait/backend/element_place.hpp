// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>

#include "plait/core/bfloat16.hpp"
#include "plait/core/macros.hpp"
#include "plait/core/namespaces.hpp"

// The arguments of operation::map_at and of the user's function that it calls; plain data for all
// devices.
namespace plait::ext {

/// The indices of the element for which ops.map_at calls the user's function.
struct element_place {
  std::size_t row = 0;       ///< row of this rank's view
  std::size_t column = 0;    ///< column of the whole row
  std::size_t position = 0;  ///< position in the whole sequence
  std::size_t sample = 0;    ///< sample of the global batch, if y has a row for each sample
};

/// A row of a view, as the user's function of ops.map_at receives it: `row[c]` is the element in
/// column c of the whole row, converted to the type in which sums are computed. If a policy splits
/// rows over ranks, only this rank's columns can be read.
template <class T>
struct element_row {
  T const* data = nullptr;
  std::size_t first_column = 0;  ///< index of data[0] in the whole row

  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE accumulate_t<T> operator[](std::size_t column) const {
    return static_cast<accumulate_t<T>>(data[column - first_column]);
  }
};

/// The elements that one call of ops.map_at computes on this rank: a block of the whole result.
struct element_block {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t samples = 1;  ///< number of rows for each position
  std::size_t first_position = 0;
  std::size_t first_sample = 0;
  std::size_t first_column = 0;

  [[nodiscard]] PLAIT_IN_LOOPS PLAIT_HOST_DEVICE element_place at(std::size_t row,
                                                                  std::size_t column) const {
    return {row, first_column + column, first_position + row / samples,
            first_sample + row % samples};
  }
};

/// A view that ops.map_at reads, as a device's queue receives it.
template <class T>
struct element_operand {
  T const* data = nullptr;
  std::size_t count = 0;  ///< number of elements
  std::size_t columns = 0;
  std::size_t first_column = 0;
  /// Number of consecutive rows of the block for which one row of the view is read
  std::size_t shared_by = 1;

  [[nodiscard]] PLAIT_IN_LOOPS PLAIT_HOST_DEVICE element_row<T> row(std::size_t of_block) const {
    return {data + of_block / shared_by * columns, first_column};
  }
};

}  // namespace plait::ext
