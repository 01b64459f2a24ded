// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "plait/backend/cuda/kernels/builtins.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/macros.hpp"

/// Kernels and the functions that launch them. A launching function takes a `launcher` and then the
/// arguments of the function of the same name in host_maths; pointers are to device memory. `T` is
/// float, double or bfloat16; statistics and arithmetic are in accumulate_t<T>. Every launch gives
/// the same bits. Nothing is launched for empty operands.
namespace plait::cuda_kernels {

/// The numbers of blocks and threads of a kernel, and the dynamic shared memory of a block.
struct launch_shape {
  unsigned blocks = 1;
  unsigned threads = 1;
  std::size_t shared_bytes = 0;  ///< above 48 KiB the kernel's limit has to be raised first
  unsigned blocks_y = 1;
};

/// Puts work at the end of a stream.
///
/// Syntax:  launch(kernel, shape, arguments...) -> void; if nvcc compiles it, also
///          launch.call(name, function) -> void.
/// Meaning: the kernel runs with the arguments, converted to its parameters, in grid (blocks,
///          blocks_y), after all earlier work of the stream. function(stream) calls a library that
///          enqueues its work; `name` is for the text of an error.
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

/// Returns true if all of these addresses and byte counts allow accesses of 16 bytes.
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

/// Returns the blocks for `work` items if a block does `per_block` at a time. It is bounded; the
/// kernels' loops do the rest.
constexpr unsigned blocks_for(std::size_t work, std::size_t per_block) {
  constexpr std::size_t most = std::size_t{1} << 20;
  return static_cast<unsigned>(smaller(divide_up(work, per_block), most));
}

/// A range of elements of one launch; its size is a multiple of the kernel's width.
struct element_range {
  std::size_t begin, end;
};

/// Launches a kernel over n elements: `wide` for the whole packs of V, if the addresses allow
/// vectors, and `narrow`, which does one element at a time, for the rest. Both get the arguments,
/// then their element_range.
template <int V, class Launch, class Kernel, class... Arguments>
void launch_packs(Launch launch, bool vectors, std::size_t n, Kernel wide, Kernel narrow,
                  Arguments... arguments) {
  std::size_t const whole = vectors ? n - n % V : 0;
  if (whole > 0)
    launch(wide, launch_shape{blocks_for(whole, std::size_t{block_threads} * V), block_threads},
           arguments..., element_range{0, whole});
  if (whole < n)
    launch(narrow, launch_shape{blocks_for(n - whole, block_threads), block_threads}, arguments...,
           element_range{whole, n});
}

// ---- Inside kernels -----------------------------------------------------------------------------

template <class A>
inline constexpr A minus_infinity = -std::numeric_limits<A>::infinity();

/// `V` adjacent elements, moved by one instruction; the address is aligned to their size.
template <class T, int V>
struct alignas(V * sizeof(T)) pack {
  T value[V];
};

template <int V, class T>
__device__ __forceinline__ pack<T, V> load(T const* from) {
  return *reinterpret_cast<pack<T, V> const*>(from);
}
template <class T, int V>
__device__ __forceinline__ void store(pack<T, V> const& values, T* to) {
  *reinterpret_cast<pack<T, V>*>(to) = values;
}

/// The packs that one iteration of a loop over two operands loads.
template <class T, int V>
struct two_packs {
  pack<T, V> first, second;

  /// Returns the sum of the two, rounded once.
  [[nodiscard]] __device__ __forceinline__ pack<T, V> sum() const {
    using A = accumulate_t<T>;
    pack<T, V> values;
    PLAIT_UNROLL
    for (int v = 0; v < V; ++v)
      values.value[v] =
          static_cast<T>(static_cast<A>(first.value[v]) + static_cast<A>(second.value[v]));
    return values;
  }
};

/// Returns the block's shared memory as one `Layout`; the launch shape gives its size.
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
/// `of_warp` is shared, with one element for each warp. Between another use of it and this call,
/// before or after, the block needs a barrier.
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

/// Calls each(i) for packs [i, i + V), so that the grid visits the range once.
template <int V, class Each>
__device__ __forceinline__ void for_each_pack(element_range range, Each each) {
  std::size_t const step = std::size_t{gridDim.x} * blockDim.x * V;
  for (std::size_t i = range.begin + (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) * V;
       i < range.end; i += step)
    each(i);
}

/// Calls each(i) for i = begin, begin + Step, ... below `end`. The number of iterations is known in
/// advance.
template <std::size_t Step, class Each>
__device__ __forceinline__ void for_each_step(std::size_t begin, std::size_t end, Each each) {
  int const turns = begin < end ? static_cast<int>((end - begin - 1) / Step + 1) : 0;
  PLAIT_UNROLL_BY(4)
  for (int turn = 0; turn < turns; ++turn) each(begin + static_cast<std::size_t>(turn) * Step);
}

/// Calls use(i, load_at(i)) for the same i. `Together` iterations load before the first of them
/// uses its data, so that a thread has this many loads under way, and a store does not delay the
/// next load. The compiler does not reorder them by itself.
template <std::size_t Step, std::size_t Together, class Load, class Use>
__device__ __forceinline__ void for_each_step(std::size_t begin, std::size_t end, Load load_at,
                                              Use use) {
  for (std::size_t i = begin; i < end; i += Step * Together) {
    decltype(load_at(i)) loaded[Together]{};
    PLAIT_UNROLL
    for (std::size_t t = 0; t < Together; ++t)
      if (i + t * Step < end) loaded[t] = load_at(i + t * Step);
    PLAIT_UNROLL
    for (std::size_t t = 0; t < Together; ++t)
      if (i + t * Step < end) use(i + t * Step, loaded[t]);
  }
}

/// Packs of a thread in one piece of a row.
inline constexpr std::size_t packs_of_piece = 4;

/// Calls piece(row, first column of this thread, end) so that the grid visits a matrix once. The
/// columns are a multiple of V; the thread has the packs at the first column and at steps of
/// warp_threads * V from there.
template <int V, class Piece>
__device__ __forceinline__ void for_each_piece_of_rows(std::size_t rows, std::size_t columns,
                                                       Piece piece_of) {
  constexpr std::size_t width = packs_of_piece * warp_threads * V;
  std::size_t const pieces = (columns + width - 1) / width;
  std::size_t const warps = std::size_t{gridDim.x} * (blockDim.x / warp_threads);
  std::size_t const lane = threadIdx.x % warp_threads;
  for (std::size_t piece =
           std::size_t{blockIdx.x} * (blockDim.x / warp_threads) + threadIdx.x / warp_threads;
       piece < rows * pieces; piece += warps) {
    std::size_t const row = piece / pieces;
    std::size_t const begin = piece % pieces * width;
    piece_of(row, begin + lane * V, smaller(begin + width, columns));
  }
}

/// Calls each(row, column) for the packs of a matrix; the threads of a warp have adjacent packs of
/// a row.
template <int V, class Each>
__device__ __forceinline__ void for_each_pack_of_rows(std::size_t rows, std::size_t columns,
                                                      Each each) {
  for_each_piece_of_rows<V>(
      rows, columns, [&](std::size_t row, std::size_t first, std::size_t end) {
        for (std::size_t c = first; c < end; c += std::size_t{warp_threads} * V) each(row, c);
      });
}

/// Calls use(row, column, load_at(row, column)), for a body that stores: a thread loads all packs
/// of a piece before it stores the first.
template <int V, class Load, class Use>
__device__ __forceinline__ void for_each_pack_of_rows(std::size_t rows, std::size_t columns,
                                                      Load load_at, Use use) {
  for_each_piece_of_rows<V>(
      rows, columns, [&](std::size_t row, std::size_t first, std::size_t end) {
        for_each_step<std::size_t{warp_threads} * V, packs_of_piece>(
            first, end, [&](std::size_t column) { return load_at(row, column); },
            [&](std::size_t column, auto const& loaded) { use(row, column, loaded); });
      });
}

/// Returns the shape for a kernel that calls for_each_pack_of_rows once.
constexpr launch_shape shape_for_rows(std::size_t rows, std::size_t columns, int v) {
  std::size_t const pieces =
      divide_up(columns, packs_of_piece * warp_threads * static_cast<std::size_t>(v));
  return {blocks_for(rows * pieces, block_warps), block_threads};
}

}  // namespace plait::cuda_kernels
