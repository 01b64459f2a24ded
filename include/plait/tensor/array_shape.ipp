// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/tensor/array_shape.hpp"

#include <cstdint>
#include <string>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"

namespace plait::detail {

[[gnu::cold]] PLAIT_DECL std::string text_of_view(array_request const& of) {
  std::string text = concat({"the view has ", of.rows, " rows and ", of.columns, " columns"});
  if (is_shard(of.at)) text += concat({" (one rank's block, ", to_string(of.at), ")"});
  return text;
}

PLAIT_DECL array_extents extents_of_vector(array_request const& of) {
  if (of.rows != 1 && of.columns != 1)
    throw size_mismatch({"as<Array>(view): Array is a vector, which needs one row or one column; ",
                         text_of_view(of), "; write an Array of rank 2"});
  return {of.rows * of.columns};
}

PLAIT_DECL array_extents extents_with_heads(array_request const& of) {
  bool const knows_heads = of.has_heads || of.extents[1] != dynamic_extent;
  std::size_t const known = of.has_heads ? of.heads : knows_heads ? of.extents[1] : of.extents[2];
  if (known == 0 || of.columns % known != 0)
    throw size_mismatch({"as<Array>(view): ", knows_heads ? "" : "heads of ", known,
                         knows_heads ? " heads" : " columns", " do not divide the columns; ",
                         text_of_view(of), "; write sizes that do, for the heads of this rank"});
  std::size_t const other = of.columns / known;
  if (knows_heads) return {of.rows, known, other};
  return {of.rows, other, known};
}

PLAIT_DECL array_extents extents_of_array(array_request const& of) {
  array_extents const extents = of.rank == 1   ? extents_of_vector(of)
                                : of.rank == 2 ? array_extents{of.rows, of.columns}
                                               : extents_with_heads(of);
  for (std::size_t i = 0; i < of.rank; ++i)
    if (of.extents[i] != dynamic_extent && of.extents[i] != extents[i])
      throw size_mismatch({"as<Array>(view): extent ", i, " is ", of.extents[i],
                           " in the type of Array and ", extents[i], " in the view; ",
                           text_of_view(of), "; write ", extents[i],
                           ", or a dynamic extent if plans differ in this size"});

  std::size_t const rows = std::max<std::size_t>(of.rows, 1);
  std::size_t const columns = std::max<std::size_t>(of.columns, 1);
  if (columns > of.most / rows)
    throw size_mismatch({"as<Array>(view): the index type of Array ends at ", of.most, ", and ",
                         text_of_view(of), "; write std::size_t"});

  auto const address = reinterpret_cast<std::uintptr_t>(of.data);
  if (address % of.alignment != 0)
    throw input_error({"as<Array>(view): Array promises an address that is a multiple of ",
                       of.alignment, " bytes, and the view begins ", address % of.alignment,
                       " bytes after one; write default_accessor, or Eigen::Unaligned"});
  return extents;
}

PLAIT_DECL view_shape view_shape_of_array(std::size_t rank, array_extents const& extents,
                                          array_extents const& strides) {
  view_shape shape{1, 1};
  bool is_empty = false;
  for (std::size_t i = 0; i < rank; ++i) {
    (i == 0 && rank > 1 ? shape.rows : shape.columns) *= extents[i];
    is_empty = is_empty || extents[i] == 0;
  }
  if (is_empty) return shape;

  array_extents const expected = row_major_strides(rank, extents);
  for (std::size_t i = 0; i < rank; ++i)
    if (extents[i] > 1 && strides[i] != expected[i])
      throw size_mismatch({"as_view(array): the stride of dimension ", i, " is ", strides[i],
                           ", and a view needs ", expected[i],
                           ", because it is row-major without gaps; copy the array to one with "
                           "layout_right"});
  return shape;
}

}  // namespace plait::detail
