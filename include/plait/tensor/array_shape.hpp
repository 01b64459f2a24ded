// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/placement/placement.hpp"

// Computes the sizes of an array of another library that refers to the elements of a view, and the
// shape of a view that refers to the elements of such an array; see tensor/mdspan.hpp.
namespace plait::detail {

inline constexpr std::size_t most_array_rank = 3;
/// An extent that is not known from the type of an array, like std::dynamic_extent.
inline constexpr std::size_t dynamic_extent = std::size_t(-1);
using array_extents = std::array<std::size_t, most_array_rank>;

/// Returns the strides, in elements, of a row-major array without gaps. They are at least 1, also
/// if the array is empty.
constexpr array_extents row_major_strides(std::size_t rank, array_extents const& extents) {
  array_extents strides{};
  std::size_t stride = 1;
  for (std::size_t i = rank; i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<std::size_t>(extents[i], 1);
  }
  return strides;
}

/// A view, and the type of the array that will refer to its elements.
struct array_request {
  std::size_t rank = 0;
  array_extents extents{};    ///< the extents in the type, or dynamic_extent
  std::size_t most = 0;       ///< the largest number that the array's index type can represent
  std::size_t alignment = 1;  ///< the alignment in bytes that the type promises
  void const* data = nullptr;
  std::size_t rows = 0, columns = 0;
  bool has_heads = false;  ///< true if the caller gave the number of heads
  std::size_t heads = 0;
  placement at{};
};

/// Returns the extents of the array that `of` describes.
///
/// Errors: size_mismatch, input_error.
array_extents extents_of_array(array_request const& of);

struct view_shape {
  std::size_t rows = 0, columns = 0;
};
/// Returns the shape of a view of the array's elements.
///
/// Errors: size_mismatch if the array is not row-major without gaps.
view_shape view_shape_of_array(std::size_t rank, array_extents const& extents,
                               array_extents const& strides);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/tensor/array_shape.ipp"
#endif
