// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "plait/core/header_only.hpp"

// Rectangles of a row-major tensor. A rectangle begins at `offset` and has `extent` elements along
// each dimension.
namespace plait::detail {

inline constexpr std::size_t most_dimensions = 64;

std::string shape_text(std::span<std::size_t const> shape);

std::string block_text(std::span<std::size_t const> offset, std::span<std::size_t const> extent);

// Multiplies `product` by `factor`; returns false if the result overflows.
bool multiply(std::size_t& product, std::size_t factor);

/// Returns the shape of a tensor that is treated as a matrix: if the tensor has more than two
/// dimensions, all dimensions after the first are combined into one.
std::vector<std::size_t> matrix_shape(std::span<std::size_t const> shape);

/// Returns true if a rectangle has as many dimensions as the tensor and is within the tensor.
bool is_block_of(std::span<std::size_t const> shape, std::span<std::size_t const> offset,
                 std::span<std::size_t const> extent);

/// Calls run(first, count) for the elements of a rectangle in row-major order, with as few calls as
/// possible: one call covers all elements that are contiguous in the tensor.
///
/// Shapes: is_block_of(shape, offset, extent).
template <class Run>
void for_each_run(std::span<std::size_t const> shape, std::span<std::size_t const> offset,
                  std::span<std::size_t const> extent, Run run) {
  for (std::size_t const n : extent)
    if (n == 0) return;
  // `row`: the number of elements of the tensor that have the same indices in the dimensions from 0
  // to `outer`.
  std::size_t outer = shape.size(), row = 1, count = 1;
  while (outer > 0) {
    --outer;
    count = row * extent[outer];
    if (extent[outer] != shape[outer]) break;
    row *= shape[outer];
  }
  // The loop iterates over the dimensions [0, outer). The elements along the other dimensions are
  // contiguous.
  std::vector<std::size_t> stride(shape.size(), 1), at(outer, 0);
  for (std::size_t i = shape.size(); i-- > 1;) stride[i - 1] = stride[i] * shape[i];
  std::size_t first = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) first += offset[i] * stride[i];
  for (;;) {
    run(first, count);
    std::size_t i = outer;
    for (;; --i) {
      if (i == 0) return;
      first += stride[i - 1];
      if (++at[i - 1] < extent[i - 1]) break;
      first -= extent[i - 1] * stride[i - 1];
      at[i - 1] = 0;
    }
  }
}

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/io/block.ipp"
#endif
