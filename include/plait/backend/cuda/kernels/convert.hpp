// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/backend/cuda/kernels/launch.hpp"

namespace plait::cuda_kernels {

template <int V, class From, class To>
__global__ void convert_kernel(From const* from, To* to, element_range range) {
  for_each_pack<V>(range, [&](std::size_t i) {
    auto const values = load<V>(from + i);
    pack<To, V> rounded;
    PLAIT_UNROLL
    for (int v = 0; v < V; ++v) rounded.value[v] = static_cast<To>(values.value[v]);
    store(rounded, to + i);
  });
}

/// to[i] = from[i], converted to type To, for i in [0, n).
template <launcher Launch, class From, class To>
void convert(Launch launch, From const* from, To* to, std::size_t n) {
  constexpr int of_from = vector_elements<From>, of_to = vector_elements<To>;
  constexpr int elements = of_from < of_to ? of_from : of_to;
  launch_packs<elements>(launch, fits_vectors(from, to), n, convert_kernel<elements, From, To>,
                         convert_kernel<1, From, To>, from, to);
}

}  // namespace plait::cuda_kernels
