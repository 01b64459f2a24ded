// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "plait/backend/cuda/kernels/builtins.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/macros.hpp"

/// Kernels, and functions that launch them. Such a function takes a `launcher`, and then the
/// arguments of the function of the same name in host_maths, with pointers to device memory. `T` is
/// float, double or bfloat16; arithmetic and statistics are in accumulate_t<T>. Each launch with
/// the same operands gives the same bits. Nothing is launched if an operand has no elements.
namespace plait::cuda_kernels {

/// The size of the grid, the threads of a block, and the dynamic shared memory of a block in bytes.
struct launch_shape {
  unsigned blocks = 1;
  unsigned threads = 1;
  std::size_t shared_bytes = 0;  ///< above 48 KiB, the kernel's limit must be raised first
  unsigned blocks_y = 1;
};

/// Puts work at the end of a stream.
///
/// Syntax:  launch(kernel, shape, arguments...) -> void; if nvcc compiles the file, also
///          launch.call(name, function) -> void.
/// Meaning: the kernel runs after all earlier work of the stream, with the arguments converted to
///          the types of its parameters, in a grid of shape.blocks x shape.blocks_y blocks.
///          function(stream) calls a library that puts its work into the stream; `name` is its name
///          in the text of an error.
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

/// The number of elements of type T in 16 bytes, the most that a thread loads or stores with one
/// instruction.
template <class T>
inline constexpr int vector_elements = 16 / static_cast<int>(sizeof(T));

/// Returns true if all of these addresses and numbers of bytes are multiples of 16, so that
/// accesses of 16 bytes are possible.
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

/// Returns the number of blocks for `work` items if a block does `per_block` items at a time. The
/// number of blocks has an upper limit; if there are more items, the kernels process them in loops.
constexpr unsigned blocks_for(std::size_t work, std::size_t per_block) {
  constexpr std::size_t most = std::size_t{1} << 20;
  return static_cast<unsigned>(smaller(divide_up(work, per_block), most));
}

/// A range of elements for one launch. Its size is a multiple of the number of elements that a
/// thread of the kernel processes at a time.
struct element_range {
  std::size_t begin, end;
};

/// Launches a kernel over n elements. If the addresses allow vectors, `wide`, which processes packs
/// of V elements, gets all complete packs. `narrow`, which processes single elements, gets the
/// remaining elements. Each kernel gets the arguments, and then its element_range.
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

/// V adjacent elements, which a thread loads or stores with one instruction. Their address is a
/// multiple of their total size.
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

/// The packs of two operands that one iteration of a loop loads.
template <class T, int V>
struct two_packs {
  pack<T, V> first, second;

  /// Returns the element-wise sum of the two packs; each sum is rounded once.
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

/// Returns the block's dynamic shared memory as an object of type `Layout`; its size is
/// shared_bytes of the launch shape.
template <class Layout>
__device__ __forceinline__ Layout& shared_memory() {
  PLAIT_SHARED_MEMORY(shared_bytes);
  return *reinterpret_cast<Layout*>(shared_bytes);
}

/// Combines the values of the threads of a warp; all threads get the same bits.
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

/// Combines the values of all threads of a block, which consists of whole warps; all threads get
/// the result. `of_warp` is shared memory with one element for each warp. If the block also uses
/// this memory before or after the call, a barrier must separate the two uses.
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

/// Calls each(i) for packs [i, i + V). The threads of the grid together process each pack of the
/// range once.
template <int V, class Each>
__device__ __forceinline__ void for_each_pack(element_range range, Each each) {
  std::size_t const step = std::size_t{gridDim.x} * blockDim.x * V;
  for (std::size_t i = range.begin + (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) * V;
       i < range.end; i += step)
    each(i);
}

/// Calls each(i) for i = begin, begin + Step, ... below `end`. The number of iterations is computed
/// in advance, so that the compiler can unroll the loop.
template <std::size_t Step, class Each>
__device__ __forceinline__ void for_each_step(std::size_t begin, std::size_t end, Each each) {
  int const turns = begin < end ? static_cast<int>((end - begin - 1) / Step + 1) : 0;
  PLAIT_UNROLL_BY(4)
  for (int turn = 0; turn < turns; ++turn) each(begin + static_cast<std::size_t>(turn) * Step);
}

/// Calls use(i, load_at(i)) for i = begin, begin + Step, ... below `end`. `Together` iterations
/// load their data before the first of them uses it. A thread thus waits for several loads at the
/// same time, and a store does not delay the next load; the compiler does not reorder loads and
/// stores by itself.
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

/// The number of packs that a thread processes in one piece of a row.
inline constexpr std::size_t packs_of_piece = 4;

/// Calls piece_of(row, first, end) for pieces of rows, so that the grid processes a matrix once; a
/// warp processes a piece. The thread has the packs at columns first, first + warp_threads * V, ...
/// below `end`. The number of columns is a multiple of V.
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

/// Calls each(row, column) for each pack of a matrix. The threads of a warp have adjacent packs of
/// a row.
template <int V, class Each>
__device__ __forceinline__ void for_each_pack_of_rows(std::size_t rows, std::size_t columns,
                                                      Each each) {
  for_each_piece_of_rows<V>(
      rows, columns, [&](std::size_t row, std::size_t first, std::size_t end) {
        for (std::size_t c = first; c < end; c += std::size_t{warp_threads} * V) each(row, c);
      });
}

/// Calls use(row, column, load_at(row, column)) for each pack of a matrix. It is for kernels that
/// store: a thread loads all its packs of a piece before it stores the first.
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

/// Returns the launch shape of a kernel that calls for_each_pack_of_rows once.
constexpr launch_shape shape_for_rows(std::size_t rows, std::size_t columns, int v) {
  std::size_t const pieces =
      divide_up(columns, packs_of_piece * warp_threads * static_cast<std::size_t>(v));
  return {blocks_for(rows * pieces, block_warps), block_threads};
}

}  // namespace plait::cuda_kernels
