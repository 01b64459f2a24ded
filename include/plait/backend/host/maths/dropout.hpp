// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "plait/backend/arguments.hpp"
#include "plait/backend/host/maths/lanes.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/random.hpp"

namespace plait::host_maths {

/// y = x * keep_scale for elements whose random number is at least `threshold`, else 0. `key` and
/// the element's global index (see dropout_block) determine its random number. The gradient is
/// computed by the same function, with dy as x and dx as y. y may be x.
///
/// Shapes: x, y (rows, cols), where rows is a multiple of block.batch_local
template <class T>
void dropout(T const* x, T* y, std::size_t rows, std::size_t cols, random_key key,
             std::uint32_t threshold, accumulate_t<T> keep_scale, dropout_block const& block) {
  for (std::size_t r = 0; r < rows; ++r, x += cols, y += cols) {
    std::uint64_t const position = block.first_position + r / block.batch_local;
    std::uint64_t const sample = block.first_sample + r % block.batch_local;
    std::uint64_t const begin =
        (sample * block.sequence_global + position) * block.width_global + block.first_column;
    for (std::size_t c = 0; c < cols;) {  // a block of random bits has words for up to four columns
      random_block const words = random_bits(key, (begin + c) / 4);
      for (std::size_t word = (begin + c) % 4; word < 4 && c < cols; ++word, ++c)
        y[c] = static_cast<T>(
            choose(words.word[word] >= threshold, x[c] * keep_scale, accumulate_t<T>{0}));
    }
  }
}

}  // namespace plait::host_maths
