// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "plait/backend/arguments.hpp"
#include "plait/backend/cuda/kernels/launch.hpp"
#include "plait/backend/cuda/kernels/optimizer.hpp"
#include "plait/backend/rounded_arena.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/random.hpp"
#include "plait/core/stochastic_rounding.hpp"

// The step of AdamW whose states are bfloat16. It has the arithmetic of the other kernel.

namespace plait::cuda_kernels {

namespace detail {

/// Two states of AdamW in bfloat16, which each store rounds stochastically. A thread has an object
/// of its own, and calls the functions for packs whose offsets increase.
struct rounded_states {
  bfloat16 *m, *v;
  ext::element_origin const* origins;
  int origin_count;
  std::uint64_t seed;
  std::uint32_t step;
  int origin = -1;  ///< index of the last origin at or in front of the last pack; -1 at first

  template <int V, class P>
  __device__ __forceinline__ void load_packs(std::size_t i, pack<P, V>& first,
                                             pack<P, V>& second) const {
    auto const stored_first = load<V>(m + i);
    auto const stored_second = load<V>(v + i);
    PLAIT_UNROLL
    for (int e = 0; e < V; ++e) {
      first.value[e] = static_cast<float>(stored_first.value[e]);
      second.value[e] = static_cast<float>(stored_second.value[e]);
    }
  }
  template <int V, class P>
  __device__ __forceinline__ void store_packs(std::size_t i, pack<P, V> const& first,
                                              pack<P, V> const& second) {
    auto const drawn = words_of<V>(i);
    pack<bfloat16, V> stored_first, stored_second;
    PLAIT_UNROLL
    for (int e = 0; e < V; ++e) {
      stored_first.value[e] =
          ext::round_stochastically(static_cast<float>(first.value[e]), drawn.value[e] & 0xFFFFu);
      stored_second.value[e] =
          ext::round_stochastically(static_cast<float>(second.value[e]), drawn.value[e] >> 16);
    }
    store(stored_first, m + i);
    store(stored_second, v + i);
  }

 private:
  // Returns a word of a block. The compiler keeps the words in registers, which it would not do
  // for an index into the array.
  static __device__ __forceinline__ std::uint32_t word_of(random_block const& block,
                                                          std::uint64_t word) {
    bool const is_odd = (word & 1) != 0;
    std::uint32_t const low = is_odd ? block.word[1] : block.word[0];
    std::uint32_t const high = is_odd ? block.word[3] : block.word[2];
    return (word & 2) != 0 ? high : low;
  }
  // Makes `origin` the last origin that begins at or in front of element i.
  __device__ __forceinline__ void find(std::size_t i) {
    if (origin < 0) {
      int high = origin_count - 1;
      origin = 0;
      while (origin < high) {
        int const middle = (origin + high + 1) / 2;
        if (origins[middle].offset <= i) origin = middle;
        else high = middle - 1;
      }
    }
    while (origin + 1 < origin_count && origins[origin + 1].offset <= i) ++origin;
  }
  // Returns true if the last origin that was found contains element i; otherwise i is padding.
  [[nodiscard]] __device__ __forceinline__ bool has(std::size_t i) const {
    return origin_count > 0 && i - origins[origin].offset < origins[origin].count;
  }
  // Returns the random words of elements i to i + V - 1; see host_maths::rounding_words.
  template <int V>
  __device__ __forceinline__ pack<std::uint32_t, V> words_of(std::size_t i) {
    pack<std::uint32_t, V> drawn;
    find(i);
    if (has(i) && origins[origin].run(i) >= std::size_t{V}) {
      std::uint64_t const index = origins[origin].index(i);
      if (index % V == 0) {  // the elements share a block of four words
        auto const block =
            random_bits(ext::rounding_key(seed, origins[origin].number, step), index / 4);
        PLAIT_UNROLL
        for (int e = 0; e < V; ++e)
          drawn.value[e] =
              V == 4 ? block.word[e] : word_of(block, index + static_cast<std::uint64_t>(e));
        return drawn;
      }
    }
    PLAIT_UNROLL
    for (int e = 0; e < V; ++e) {
      std::size_t const at = i + static_cast<std::size_t>(e);
      find(at);
      drawn.value[e] = 0;
      if (!has(at)) continue;
      std::uint64_t const index = origins[origin].index(at);
      drawn.value[e] = word_of(
          random_bits(ext::rounding_key(seed, origins[origin].number, step), index / 4), index);
    }
    return drawn;
  }
};

}  // namespace detail

template <int V, class P, class S, class C>
__global__ __launch_bounds__(block_threads) void rounded_adamw_kernel(
    P* parameter, S const* gradient, bfloat16* m, bfloat16* v, update_range const* ranges,
    int range_count, ext::element_origin const* origins, int origin_count, std::uint64_t seed,
    std::uint32_t const* step, adamw_constants constants, adamw_numbers const* numbers,
    double const* gradient_scale, C* compute_copy, element_range of) {
  detail::adamw_packs<V>(parameter, gradient,
                         detail::rounded_states{m, v, origins, origin_count, seed, *step}, ranges,
                         range_count, constants, numbers, gradient_scale, compute_copy, of);
}

/// Makes one AdamW step, as adamw(), on all parameters of an arena whose states are bfloat16. The
/// step computes in the type of the parameters and then rounds the new states stochastically.
///
/// Shapes: as rounded_arena; its pointers and `numbers` are to device memory
template <launcher Launch, class P, class S, class C>
void rounded_adamw(Launch launch, ext::rounded_arena<P, S, C> const& of,
                   adamw_constants const& constants, adamw_numbers const* numbers) {
  constexpr int wide = vector_elements<P>;
  bfloat16 *const m = of.states, *const v = m + of.state_stride;
  detail::launch_update<wide, detail::adamw_scalars<P>>(
      launch, fits_vectors(of.parameters, of.gradients, m, v, of.copies), of.count,
      rounded_adamw_kernel<wide, P, S, C>, rounded_adamw_kernel<1, P, S, C>, of.parameters,
      of.gradients, m, v, of.ranges, of.range_count, of.origins, of.origin_count, of.seed, of.step,
      constants, numbers, of.gradient_scale, of.copies);
}

}  // namespace plait::cuda_kernels
