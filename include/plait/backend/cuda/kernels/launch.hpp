// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "plait/backend/cuda/kernels/builtins.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/macros.hpp"

/// Kernels and the functions that launch them. A launching function takes a `launcher` first and
/// then what the function of the same name in host_maths takes; pointers are to device memory. `T`
/// is float, double or bfloat16; statistics and arithmetic are in accumulate_t<T>. The results are
/// the same bits at every launch. Nothing is launched for empty operands.
namespace plait::cuda_kernels {

/// How many blocks of how many threads run a kernel, and the dynamic shared memory of a block.
struct launch_shape {
  unsigned blocks = 1;
  unsigned threads = 1;
  std::size_t shared_bytes = 0;  ///< above 48 KiB the device has to be asked for it first
  unsigned blocks_y = 1;
};

/// Puts work at the end of a stream.
///
/// Syntax:  launch(kernel, shape, arguments...) -> void; where nvcc compiles it, also
///          launch.call(name, function) -> void.
/// Meaning: the kernel runs with the arguments, converted to its parameters, in grid (blocks,
///          blocks_y) after all that the stream was given before. function(stream) is a call of a
///          library that does the same; `name` is for the text of an error.
template <class L>
concept launcher = requires(L launch, void (*kernel)(int*), launch_shape shape, int* argument) {
  launch(kernel, shape, argument);
#if defined(__CUDACC__)
  launch.call("cudaStreamQuery", cudaStreamQuery);
#endif
};

inline constexpr int warp_threads = 32;
inline constexpr unsigned whole_warp = 0xFFFFFFFFu;
inline constexpr int block_threads = 256;
inline constexpr int block_warps = block_threads / warp_threads;

/// Elements of `T` in the 16 bytes that a thread moves at a time.
template <class T>
inline constexpr int vector_elements = 16 / static_cast<int>(sizeof(T));

/// Whether all of these addresses and byte counts allow accesses of 16 bytes.
template <class... Numbers>
bool fits_vectors(Numbers... numbers) {
  auto const fits = [](auto number) {
    if constexpr (std::integral<decltype(number)>) return number % 16 == 0;
    else return reinterpret_cast<std::uintptr_t>(number) % 16 == 0;
  };
  return (fits(numbers) && ...);
}

template <class T>
PLAIT_HOST_DEVICE constexpr T smaller(T a, T b) {
  return b < a ? b : a;
}
template <class T>
PLAIT_HOST_DEVICE constexpr T larger(T a, T b) {
  return a < b ? b : a;
}

constexpr std::size_t divide_up(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

/// Blocks for `work` items of which a block does `per_block` at a time; above a limit the kernels'
/// loops do the rest.
constexpr unsigned blocks_for(std::size_t work, std::size_t per_block) {
  constexpr std::size_t most = std::size_t{1} << 20;
  return static_cast<unsigned>(smaller(divide_up(work, per_block), most));
}

// ---- Inside kernels -----------------------------------------------------------------------------

template <class A>
inline constexpr A minus_infinity = -std::numeric_limits<A>::infinity();

/// `V` neighbours, moved by one instruction.
template <class T, int V>
struct alignas(V * sizeof(T)) pack {
  T value[V];
};

/// The first `count` of V elements, zeros for the others. A full pack must be aligned to its size.
template <int V, class T>
__device__ __forceinline__ pack<T, V> load(T const* from, int count = V) {
  if (count == V) return *reinterpret_cast<pack<T, V> const*>(from);
  pack<T, V> values{};
  for (int v = 0; v < V; ++v)
    if (v < count) values.value[v] = from[v];
  return values;
}
template <class T, int V>
__device__ __forceinline__ void store(pack<T, V> const& values, T* to, int count = V) {
  if (count == V) {
    *reinterpret_cast<pack<T, V>*>(to) = values;
    return;
  }
  for (int v = 0; v < V; ++v)
    if (v < count) to[v] = values.value[v];
}

/// The block's shared memory as one `Layout`, whose size the launch shape gives.
template <class Layout>
__device__ __forceinline__ Layout& shared_memory() {
  PLAIT_SHARED_MEMORY(shared_bytes);
  return *reinterpret_cast<Layout*>(shared_bytes);
}

/// Combines the values of a warp's threads; every thread gets the same bits.
template <class T, class Join>
__device__ __forceinline__ T warp_reduce(T value, Join join) {
  PLAIT_UNROLL
  for (int distance = warp_threads / 2; distance > 0; distance /= 2)
    value = join(value, __shfl_xor_sync(whole_warp, value, distance));
  return value;
}
template <class T>
__device__ __forceinline__ T warp_sum(T value) {
  return warp_reduce(value, [](T a, T b) { return a + b; });
}

/// Combines the values of all threads of a block of whole warps; every thread gets the result.
/// `of_warp` is shared, one element for each warp; the block must not use it on either side without
/// a barrier between.
template <class T, class Join>
__device__ __forceinline__ T block_reduce(T value, T* of_warp, Join join) {
  value = warp_reduce(value, join);
  if (threadIdx.x % warp_threads == 0) of_warp[threadIdx.x / warp_threads] = value;
  __syncthreads();
  T result = of_warp[0];
  for (unsigned warp = 1; warp < blockDim.x / warp_threads; ++warp)
    result = join(result, of_warp[warp]);
  return result;
}

/// Calls each(i, count) so that the grid sees [0, n) once, as packs [i, i + count); count is V but
/// for the last.
template <int V, class Each>
__device__ __forceinline__ void for_each_pack(std::size_t n, Each each) {
  std::size_t const step = std::size_t{gridDim.x} * blockDim.x * V;
  for (std::size_t i = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) * V; i < n; i += step)
    each(i, static_cast<int>(smaller<std::size_t>(V, n - i)));
}

/// Packs that a thread of a warp does of one piece of a row.
inline constexpr std::size_t packs_of_piece = 4;

/// Calls each(row, column, count) so that the grid sees a matrix once; the threads of a warp have
/// neighbouring packs of a row. With V > 1, every row must begin aligned.
template <int V, class Each>
__device__ __forceinline__ void for_each_pack_of_rows(std::size_t rows, std::size_t columns,
                                                      Each each) {
  constexpr std::size_t width = packs_of_piece * warp_threads * V;
  std::size_t const pieces = (columns + width - 1) / width;
  std::size_t const warps = std::size_t{gridDim.x} * (blockDim.x / warp_threads);
  std::size_t const lane = threadIdx.x % warp_threads;
  for (std::size_t piece =
           std::size_t{blockIdx.x} * (blockDim.x / warp_threads) + threadIdx.x / warp_threads;
       piece < rows * pieces; piece += warps) {
    std::size_t const row = piece / pieces;
    std::size_t const begin = piece % pieces * width;
    PLAIT_UNROLL
    for (std::size_t i = 0; i < packs_of_piece; ++i) {
      std::size_t const column = begin + (i * warp_threads + lane) * V;
      if (column < columns)
        each(row, column, static_cast<int>(smaller<std::size_t>(V, columns - column)));
    }
  }
}
/// The shape for a kernel that is one for_each_pack_of_rows.
constexpr launch_shape shape_for_rows(std::size_t rows, std::size_t columns, int v) {
  std::size_t const pieces =
      divide_up(columns, packs_of_piece * warp_threads * static_cast<std::size_t>(v));
  return {blocks_for(rows * pieces, block_warps), block_threads};
}

}  // namespace plait::cuda_kernels
