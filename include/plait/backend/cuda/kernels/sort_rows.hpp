// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "plait/backend/cuda/kernels/launch.hpp"

// Positions sorted by the table row that they name, those of one row in order: a radix sort of
// eight bits at a time. A warp does a chunk of the positions, so that their order is kept; the
// chunks' counts of each digit, summed up digit by digit, say where each chunk writes.

namespace plait::cuda_kernels {

/// n positions and the rows that they name, sorted.
struct sorted_rows {
  std::uint32_t const* rows;
  std::uint32_t const* positions;
};

namespace detail {

inline constexpr int digit_bits = 8;
inline constexpr unsigned digits = 1u << digit_bits;
inline constexpr unsigned chunk_warps = 4;  // of a block
inline constexpr int scan_threads = 1024;

// The row of a shard [first, first + count) that holds `id`, or `count` if another shard has it.
__device__ __forceinline__ std::size_t local_row(std::int32_t id, std::size_t first,
                                                 std::size_t count) {
  // A negative id, or one below `first`, wraps around to a huge number.
  return smaller(static_cast<std::size_t>(id) - first, count);
}

/// Chunks of the positions: of 512, or more so that the counts stay few.
constexpr std::size_t row_chunks(std::size_t n) {
  return smaller<std::size_t>(divide_up(n, 512), 256);
}

struct chunk_memory {
  std::uint32_t of_digit[chunk_warps][digits];
};

// Calls each(i, digit, peers) for the positions of this warp's chunk, 32 at a time in order; peers
// are the lanes with the same digit. All lanes call it, those behind the end with i == n.
template <class Each>
__device__ __forceinline__ void for_each_of_chunk(std::uint32_t const* rows, std::size_t n,
                                                  std::size_t chunks, std::size_t chunk, int shift,
                                                  Each each) {
  unsigned const lane = threadIdx.x % warp_threads;
  std::size_t const end = n * (chunk + 1) / chunks;
  for (std::size_t first = n * chunk / chunks; first < end; first += warp_threads) {
    std::size_t const i = smaller(first + lane, end);
    unsigned const digit = i < end ? rows[i] >> shift & (digits - 1) : digits;
    unsigned const peers = __match_any_sync(whole_warp, digit);
    each(i < end ? i : n, digit, peers);
    __syncwarp();
  }
}

}  // namespace detail

/// Numbers of workspace that sort_rows needs.
constexpr std::size_t sort_rows_workspace(std::size_t n) {
  return 4 * n + detail::digits * detail::row_chunks(n);
}

template <class Index>  // so that every file may have it
__global__ void local_rows_kernel(std::int32_t const* ids, std::size_t first_row,
                                  std::size_t local_rows, Index* rows, Index* positions,
                                  std::size_t n) {
  for_each_pack<1>(n, [&](std::size_t i, int) {
    rows[i] = static_cast<Index>(detail::local_row(ids[i], first_row, local_rows));
    positions[i] = static_cast<Index>(i);
  });
}

template <class Index>
__global__ void count_digits_kernel(Index const* rows, std::size_t n, std::size_t chunks, int shift,
                                    Index* counts) {
  auto& memory = shared_memory<detail::chunk_memory>();
  unsigned const warp = threadIdx.x / warp_threads, lane = threadIdx.x % warp_threads;
  std::size_t const chunk = std::size_t{blockIdx.x} * detail::chunk_warps + warp;
  if (chunk >= chunks) return;
  auto& count = memory.of_digit[warp];
  for (unsigned d = lane; d < detail::digits; d += warp_threads) count[d] = 0;
  __syncwarp();
  detail::for_each_of_chunk(rows, n, chunks, chunk, shift,
                            [&](std::size_t i, unsigned digit, unsigned peers) {
                              bool const leads = (peers & ((1u << lane) - 1)) == 0;
                              if (i < n && leads)
                                count[digit] += static_cast<unsigned>(__popc(peers));
                            });
  for (unsigned d = lane; d < detail::digits; d += warp_threads)
    counts[d * chunks + chunk] = count[d];
}

// Replaces each count by the sum of those before it. One block.
template <class Index>
__global__ __launch_bounds__(detail::scan_threads) void scan_counts_kernel(Index* counts,
                                                                           std::size_t n) {
  struct layout {
    Index sum[detail::scan_threads];
  };
  auto& memory = shared_memory<layout>();
  unsigned const t = threadIdx.x;
  std::size_t const begin = n * t / detail::scan_threads;
  std::size_t const end = n * (t + 1) / detail::scan_threads;
  Index sum = 0;
  for (std::size_t i = begin; i < end; ++i) sum += counts[i];
  Index before = sum;
  memory.sum[t] = sum;
  __syncthreads();
  for (unsigned distance = 1; distance < detail::scan_threads; distance *= 2) {
    Index const left = t >= distance ? memory.sum[t - distance] : 0;
    __syncthreads();
    memory.sum[t] = before += left;
    __syncthreads();
  }
  before -= sum;
  for (std::size_t i = begin; i < end; ++i) {
    Index const count = counts[i];
    counts[i] = before;
    before += count;
  }
}

template <class Index>
__global__ void place_by_digit_kernel(Index const* rows, Index const* positions, std::size_t n,
                                      std::size_t chunks, int shift, Index const* begins,
                                      Index* sorted_rows_out, Index* sorted_positions) {
  auto& memory = shared_memory<detail::chunk_memory>();
  unsigned const warp = threadIdx.x / warp_threads, lane = threadIdx.x % warp_threads;
  std::size_t const chunk = std::size_t{blockIdx.x} * detail::chunk_warps + warp;
  if (chunk >= chunks) return;
  auto& next = memory.of_digit[warp];
  for (unsigned d = lane; d < detail::digits; d += warp_threads)
    next[d] = begins[d * chunks + chunk];
  __syncwarp();
  detail::for_each_of_chunk(
      rows, n, chunks, chunk, shift, [&](std::size_t i, unsigned digit, unsigned peers) {
        unsigned const rank = static_cast<unsigned>(__popc(peers & ((1u << lane) - 1)));
        std::size_t const to = i < n ? next[digit] + rank : 0;
        __syncwarp();
        if (i == n) return;
        if (rank == 0) next[digit] += static_cast<unsigned>(__popc(peers));
        sorted_rows_out[to] = rows[i];
        sorted_positions[to] = positions[i];
      });
}

/// The positions [0, n) sorted by the shard's row that their ids name; `local_rows` stands for the
/// rows of other shards. The result lies in the workspace.
///
/// Shapes: ids (n), n below 2^32; workspace (sort_rows_workspace(n))
template <launcher Launch>
sorted_rows sort_rows(Launch launch, std::int32_t const* ids, std::size_t first_row,
                      std::size_t local_rows, std::int32_t* workspace, std::size_t n) {
  auto* const numbers = reinterpret_cast<std::uint32_t*>(workspace);
  std::uint32_t *rows = numbers, *positions = numbers + n;
  std::uint32_t *other_rows = numbers + 2 * n, *other_positions = numbers + 3 * n;
  std::uint32_t* const counts = numbers + 4 * n;
  std::size_t const chunks = detail::row_chunks(n);
  launch_shape const of_chunks{static_cast<unsigned>(divide_up(chunks, detail::chunk_warps)),
                               detail::chunk_warps * warp_threads, sizeof(detail::chunk_memory)};
  launch(local_rows_kernel<std::uint32_t>,
         launch_shape{blocks_for(n, block_threads), block_threads}, ids, first_row, local_rows,
         rows, positions, n);
  for (int shift = 0; shift < static_cast<int>(std::bit_width(local_rows));
       shift += detail::digit_bits) {
    launch(count_digits_kernel<std::uint32_t>, of_chunks, rows, n, chunks, shift, counts);
    launch(scan_counts_kernel<std::uint32_t>,
           launch_shape{1, detail::scan_threads, detail::scan_threads * sizeof(std::uint32_t)},
           counts, detail::digits * chunks);
    launch(place_by_digit_kernel<std::uint32_t>, of_chunks, rows, positions, n, chunks, shift,
           counts, other_rows, other_positions);
    std::swap(rows, other_rows);
    std::swap(positions, other_positions);
  }
  return {rows, positions};
}

}  // namespace plait::cuda_kernels
