// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/operation/signature.hpp"

/// The signatures of the operations that layers are made of. Operands that ranks never cut, as the
/// integers of a lookup, are left out.
namespace plait::operation {

/// The product of two matrices.
inline constexpr signature matmul{"m k, k n -> m n; linear each"};
/// The sum of two matrices.
inline constexpr signature add{"r c, r c -> r c; linear all"};
/// A row that is added to each row of a matrix.
inline constexpr signature add_row{"1 c, r c -> r c; linear all"};
/// The sum of the rows of a matrix.
inline constexpr signature column_sums{"r c -> 1 c; linear all"};
/// The sum over the rows of a function of two matrices' elements.
inline constexpr signature accumulate_columns{"r c, r c -> 1 c"};
/// An operation on each row as a whole, with a row of parameters that all of them share.
inline constexpr signature row_operation{"r c, 1 c -> r c; whole c"};
/// Rows that are looked up in a table, a row for each position.
inline constexpr signature gather_rows{"v c -> r c; linear all"};
/// Rows that are added to those of a table: the gradient of a lookup.
inline constexpr signature scatter_add_rows{"r c -> v c; linear all"};
/// Attention with query, key and value side by side: an index of heads, in three parts.
inline constexpr signature attention{"r 3h -> r h; whole r"};
/// Attention with query, key and value by themselves, cut into whole heads.
inline constexpr signature attention_groups{"r h, s h, s h -> r h; whole r s; linear last"};
/// Attention whose ranks share a head of key and value, which each of them has.
inline constexpr signature attention_shared_groups{
    "r h, s k, s k -> r h; whole r s k; linear last"};
/// A convolution: images by input channels, output channels by input channels, images by output
/// channels.
inline constexpr signature convolve{"r i, o i -> r o; linear each"};
inline constexpr signature convolve_backward_input{"r o, o i -> r i; linear each"};
inline constexpr signature convolve_backward_weight{"r o, r i -> o i; linear each"};
/// A convolution in groups of channels, each of which is convolved by itself.
inline constexpr signature convolve_groups{"r g, g w -> r g; whole w; linear each"};
inline constexpr signature convolve_groups_backward_weight{"r g, r g -> g w; whole w; linear each"};
/// Statistics of channels over images, with a row of parameters for the channels.
inline constexpr signature normalize_sets{"r c, 1 c -> r c"};

}  // namespace plait::operation
