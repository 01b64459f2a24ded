// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "plait/backend/cuda/kernels/launch.hpp"
#include "plait/core/rounded_block.hpp"

// Conversions between gradients and the blocks that ranks send. A warp converts a block, two
// elements in each thread.
namespace plait::cuda_kernels {

/// Calls each(block, lane) for every block, in each thread of the warp that converts the block.
template <class Each>
__device__ __forceinline__ void for_each_rounded_block(std::size_t count, Each each) {
  std::size_t const warps = std::size_t{gridDim.x} * (blockDim.x / warp_threads);
  std::size_t const first =
      std::size_t{blockIdx.x} * (blockDim.x / warp_threads) + threadIdx.x / warp_threads;
  for (std::size_t block = first; block < count; block += warps)
    each(block, threadIdx.x % warp_threads);
}

template <class T, class Of>
__global__ void round_blocks_kernel(T const* from, rounded_block<Of>* to, std::size_t count) {
  for_each_rounded_block(count, [&](std::size_t block, unsigned lane) {
    T const* const x = from + block * rounded_elements;
    float const first = static_cast<float>(x[lane]);
    float const second = static_cast<float>(x[lane + warp_threads]);
    if constexpr (rounded_block<Of>::has_scale) {
      auto const bits_of = [](float value) {
        return __builtin_bit_cast(std::uint32_t, value) & 0x7FFFFFFFu;
      };
      // Magnitudes have the order of their bits; the bits of a NaN come last.
      std::uint32_t const largest =
          warp_reduce(larger(bits_of(first), bits_of(second)),
                      [](std::uint32_t a, std::uint32_t b) { return larger(a, b); });
      float const by = rounded_block<Of>::divisor_of(__builtin_bit_cast(float, largest));
      if (lane == 0) to[block].scale = rounded_block<Of>::scale_for(by);
      to[block].value[lane] = rounded_block<Of>::rounded(first, by);
      to[block].value[lane + warp_threads] = rounded_block<Of>::rounded(second, by);
    } else {
      to[block].value[lane] = Of(first);
      to[block].value[lane + warp_threads] = Of(second);
    }
  });
}

template <bool Adds, class T, class Of>
__global__ void widen_blocks_kernel(rounded_block<Of> const* from, T* to, std::size_t count) {
  for_each_rounded_block(count, [&](std::size_t block, unsigned lane) {
    PLAIT_UNROLL
    for (unsigned i = lane; i < rounded_elements; i += warp_threads) {
      T& target = to[block * rounded_elements + i];
      T const value = static_cast<T>(from[block].widened(i));
      if constexpr (Adds) target += value;
      else target = value;
    }
  });
}

inline launch_shape shape_for_blocks(std::size_t count) {
  return {blocks_for(count, block_warps), block_threads};
}

template <launcher Launch, class T, class Of>
void round_blocks(Launch launch, T const* from, rounded_block<Of>* to, std::size_t count) {
  if (count > 0) launch(round_blocks_kernel<T, Of>, shape_for_blocks(count), from, to, count);
}
template <launcher Launch, class T, class Of>
void widen_blocks(Launch launch, rounded_block<Of> const* from, T* to, std::size_t count) {
  if (count > 0)
    launch(widen_blocks_kernel<false, T, Of>, shape_for_blocks(count), from, to, count);
}
template <launcher Launch, class T, class Of>
void add_blocks(Launch launch, rounded_block<Of> const* from, T* sum, std::size_t count) {
  if (count > 0)
    launch(widen_blocks_kernel<true, T, Of>, shape_for_blocks(count), from, sum, count);
}

}  // namespace plait::cuda_kernels
