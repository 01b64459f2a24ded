// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/backend/cuda/kernels/launch.hpp"

namespace plait::cuda_kernels {

template <int V, class From, class To>
__global__ void convert_kernel(From const* from, To* to, std::size_t n) {
  for_each_pack<V>(n, [&](std::size_t i, int count) {
    auto const values = load<V>(from + i, count);
    pack<To, V> rounded;
    PLAIT_UNROLL
    for (int v = 0; v < V; ++v) rounded.value[v] = static_cast<To>(values.value[v]);
    store(rounded, to + i, count);
  });
}

/// to[i] = from[i] in another type.
template <launcher Launch, class From, class To>
void convert(Launch launch, From const* from, To* to, std::size_t n) {
  if (n == 0) return;
  constexpr int of_from = vector_elements<From>, of_to = vector_elements<To>;
  constexpr int elements = of_from < of_to ? of_from : of_to;
  bool const vectors = fits_vectors(from, to);
  launch(vectors ? convert_kernel<elements, From, To> : convert_kernel<1, From, To>,
         launch_shape{
             blocks_for(n, static_cast<std::size_t>(block_threads * (vectors ? elements : 1))),
             block_threads},
         from, to, n);
}

}  // namespace plait::cuda_kernels
