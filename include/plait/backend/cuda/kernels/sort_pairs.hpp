// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__CUDACC__)
#include <cub/device/device_radix_sort.cuh>
#endif

#include <cstddef>
#include <cstdint>

#include "plait/backend/cuda/kernels/launch.hpp"

namespace plait::cuda_kernels {

/// Pairs of a key and a value, and the arrays to which the sorted pairs are written.
struct pairs_to_sort {
  std::uint32_t const* keys = nullptr;
  std::uint32_t const* values = nullptr;
  std::uint32_t* sorted_keys = nullptr;
  std::uint32_t* sorted_values = nullptr;
  std::size_t count = 0;
  int key_bits = 32;  ///< the number of low bits of a key that are compared
};

namespace detail {

// Sorts the pairs, with `bytes` bytes of workspace. If `workspace` is null, does not sort and sets
// `bytes` to the size that is needed.
template <launcher Launch>
void sort_pairs(Launch launch, pairs_to_sort const& pairs, void* workspace, std::size_t& bytes);

#if defined(__CUDACC__)  // a program that emulates a device defines its own version
template <launcher Launch>
void sort_pairs(Launch launch, pairs_to_sort const& pairs, void* workspace, std::size_t& bytes) {
  launch.call("cub::DeviceRadixSort::SortPairs", [&](cudaStream_t stream) {
    return cub::DeviceRadixSort::SortPairs(
        workspace, bytes, pairs.keys, pairs.sorted_keys, pairs.values, pairs.sorted_values,
        static_cast<std::uint32_t>(pairs.count), 0, pairs.key_bits, stream);
  });
}
#endif

}  // namespace detail

/// The number of elements of workspace that sort_pairs needs on the launcher's device. Nothing is
/// launched.
template <launcher Launch>
std::size_t sort_pairs_workspace(Launch launch, std::size_t count, int key_bits) {
  std::size_t bytes = 0;
  detail::sort_pairs(launch, {.count = count, .key_bits = key_bits}, nullptr, bytes);
  return divide_up(bytes, sizeof(std::uint32_t));
}

/// Sorts pairs by their keys; pairs with equal keys keep their order.
///
/// Shapes: keys, values, sorted_keys, sorted_values (count), count below 2^32;
///         workspace (sort_pairs_workspace(launch, count, key_bits))
template <launcher Launch>
void sort_pairs(Launch launch, pairs_to_sort const& pairs, std::uint32_t* workspace) {
  if (pairs.count == 0) return;
  std::size_t bytes =
      sort_pairs_workspace(launch, pairs.count, pairs.key_bits) * sizeof(std::uint32_t);
  detail::sort_pairs(launch, pairs, workspace, bytes);
}

}  // namespace plait::cuda_kernels
