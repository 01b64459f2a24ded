// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "plait/backend/arguments.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/macros.hpp"
#include "plait/core/random.hpp"

namespace plait::ext {

/// Describes where elements of a block are in a whole parameter. The block contains `count`
/// elements of one parameter, from offset `offset` on. On one rank, the elements of a parameter
/// form pieces of `piece` adjacent elements, and the pieces begin `stride` elements apart in the
/// whole parameter. For example, rank 1 of two tensor ranks has the right half of each row of a
/// matrix with 4 rows and 6 columns: its pieces have 3 elements, the first piece begins at element
/// 3 of the matrix, and the stride is 6.
struct element_origin {
  std::size_t offset = 0;
  std::size_t count = 0;
  std::size_t first = 0;  ///< index of the element at `offset` among the rank's elements
  std::size_t begin = 0;  ///< index of the rank's first element in the whole parameter
  std::size_t piece = 1;
  std::size_t stride = 1;
  std::uint32_t number = 0;  ///< number of the parameter among all parameters of the model

  /// Returns the index, in the whole parameter, of the element at an offset in the block. The
  /// index does not depend on how the parameter is divided among ranks.
  [[nodiscard]] PLAIT_HOST_DEVICE constexpr std::uint64_t index(std::size_t at) const {
    std::size_t const mine = first + (at - offset);
    return mine < piece ? begin + mine : begin + mine / piece * stride + mine % piece;
  }
  /// Returns the number of elements, from an offset on, whose indices are consecutive.
  [[nodiscard]] PLAIT_HOST_DEVICE constexpr std::size_t run(std::size_t at) const {
    std::size_t const mine = first + (at - offset), rest = offset + count - at;
    std::size_t const in_piece = piece - (mine < piece ? mine : mine % piece);
    return in_piece < rest ? in_piece : rest;
  }
};

/// The operands of an optimizer's step whose states are bfloat16, rounded stochastically. Two
/// states of an element are rounded by the halves of one random word, which is a function of the
/// seed, the step, the parameter and the index of the element in the whole parameter. Every plan
/// therefore draws the same random words.
///
/// Shapes: origins (origin_count), in the order of their offsets. Elements that are in no origin
///         are padding; their states are rounded towards zero.
template <class Parameter, class Gradient, class Copy>
struct rounded_arena : optimizer_arena<Parameter, Gradient, Copy, bfloat16> {
  element_origin const* origins = nullptr;
  int origin_count = 0;
  std::uint64_t seed = 0;
  std::uint32_t const* step = nullptr;  ///< pointer to the device's memory
};

/// Returns the key of the random numbers by which the states of a parameter are rounded in a step.
/// Layers and start values use sites below 2^31.
PLAIT_HOST_DEVICE constexpr random_key rounding_key(std::uint64_t seed, std::uint32_t number,
                                                    std::uint32_t step) {
  return {seed, number | 0x80000000u, step};
}

}  // namespace plait::ext
