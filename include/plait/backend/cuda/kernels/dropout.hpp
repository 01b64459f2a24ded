// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "plait/backend/arguments.hpp"
#include "plait/backend/cuda/kernels/launch.hpp"
#include "plait/core/random.hpp"

namespace plait::cuda_kernels {

namespace detail {

/// The number of random words in a random_block; as many adjacent elements share a block.
inline constexpr int words = 4;

}  // namespace detail

// A thread computes the elements of a row that share a block of four random words. `Whole`: these
// are always four elements of the row, at an aligned address.
template <bool Whole, class T>
__global__ void dropout_kernel(T const* x, T* y, std::size_t rows, std::size_t columns,
                               dropout_key key, std::uint32_t threshold, accumulate_t<T> keep_scale,
                               dropout_block block) {
  using A = accumulate_t<T>;
  constexpr int words = detail::words;
  random_key const stream{key.seed, key.site, *key.step};
  // Returns the index, in the unsharded array, of the first element of row r.
  auto const begin_of = [&](std::size_t r) -> std::uint64_t {
    std::uint64_t const position = block.first_position + r / block.batch_local;
    std::uint64_t const sample = block.first_sample + r % block.batch_local;
    return (sample * block.sequence_global + position) * block.width_global + block.first_column;
  };
  auto const result = [&](T value, std::uint32_t word) {
    return word >= threshold ? static_cast<T>(static_cast<A>(value) * keep_scale)
                             : static_cast<T>(A{0});
  };
  if constexpr (Whole) {
    for_each_pack_of_rows<1>(
        rows, columns / words,
        [&](std::size_t r, std::size_t i) { return load<words>(x + r * columns + i * words); },
        [&](std::size_t r, std::size_t i, pack<T, words> const& of) {
          random_block const random = random_bits(stream, begin_of(r) / words + i);
          auto values = of;
          PLAIT_UNROLL
          for (int word = 0; word < words; ++word)
            values.value[word] = result(values.value[word], random.word[word]);
          store(values, y + r * columns + i * words);
        });
  } else {
    for_each_pack_of_rows<1>(rows, columns / words + 2, [&](std::size_t r, std::size_t i) {
      std::uint64_t const begin = begin_of(r);
      std::uint64_t const number = begin / words + i;
      // The column of the first of these words; it is negative if it belongs to the previous row.
      auto const first = static_cast<std::int64_t>(number * words - begin);
      if (first >= static_cast<std::int64_t>(columns)) return;
      random_block const random = random_bits(stream, number);
      PLAIT_UNROLL
      for (int word = 0; word < words; ++word) {
        std::int64_t const c = first + word;
        if (c >= 0 && c < static_cast<std::int64_t>(columns))
          y[r * columns + static_cast<std::size_t>(c)] =
              result(x[r * columns + static_cast<std::size_t>(c)], random.word[word]);
      }
    });
  }
}

/// y = x * keep_scale if the random number of the element is at least `threshold`, else 0. The
/// random number depends on `key` and on the element's index in the unsharded array. The function
/// is its own gradient, with dy for x and dx for y. y may be x.
///
/// Shapes: x, y (rows, columns), where rows is a multiple of block.batch_local
template <launcher Launch, class T>
void dropout(Launch launch, T const* x, T* y, std::size_t rows, std::size_t columns,
             dropout_key const& key, std::uint32_t threshold, double keep_scale,
             dropout_block const& block) {
  if (rows == 0 || columns == 0) return;
  constexpr std::size_t words = detail::words;
  auto const aligned = [](void const* at) {
    return reinterpret_cast<std::uintptr_t>(at) % alignof(pack<T, detail::words>) == 0;
  };
  bool const whole = columns % words == 0 && block.first_column % words == 0 &&
                     block.width_global % words == 0 && aligned(x) && aligned(y);
  launch(whole ? dropout_kernel<true, T> : dropout_kernel<false, T>,
         shape_for_rows(rows, columns / words + 2, 1), x, y, rows, columns, key, threshold,
         static_cast<accumulate_t<T>>(keep_scale), block);
}

}  // namespace plait::cuda_kernels
