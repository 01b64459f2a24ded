// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/core/macros.hpp"
#include "plait/formula/layer.hpp"
#include "plait/layer/combinators.hpp"
#include "plait/layer/layer.hpp"
#include "plait/nn/linear.hpp"
#include "plait/nn/rms_norm.hpp"
#include "plait/nn/rotary.hpp"

namespace plait::nn {

namespace detail {

/// Repeats a value for each head of another value, whose numbers it does not use.
struct for_each_head {
  static constexpr bool is_linear = true;
  template <class T>
  PLAIT_HOST_DEVICE T operator()(T x, T) const {
    return x;
  }
};

}  // namespace detail

/// The widths of an attention with a latent of keys and values, named as in DeepSeek's
/// configurations.
struct latent_attention_shape {
  std::size_t heads;
  std::size_t
      latent;         ///< kv_lora_rank: features from which the keys and values of all heads follow
  std::size_t nope;   ///< qk_nope_head_dim: features of a head's query and key without a position
  std::size_t rope;   ///< qk_rope_head_dim: rotated features, which all heads share in the keys
  std::size_t value;  ///< v_head_dim: features of a head's value
};

/// Causal attention whose keys and values are products of one latent row with matrices of each
/// head. A key has a second piece, rotated, that all heads share. The scores are divided by the
/// square root of nope + rope.
///
/// Shapes: inputs q (Sequence * batch, heads nope), rotated q (..., heads rope), latent (...,
///         latent), rotated k (..., rope); k_b.weight (heads nope, latent), v_b.weight (heads
///         value, latent); y (..., heads value).
/// Moves:  ranks cut the heads; the gradients of latent and rotated k are summed over them. The
///         sequence is whole.
/// Cost:   the scores of all pairs of positions are stored.
template <latent_attention_shape Shape, std::size_t Sequence>
struct latent_attention {
  static_assert(Shape.heads > 0 && Shape.latent > 0 && Shape.nope > 0 && Shape.rope > 0 &&
                    Shape.value > 0,
                "latent_attention<{.heads, .latent, .nope, .rope, .value}, Sequence>: one of the "
                "numbers is 0; write all five");
  template <ext::name Label, std::size_t Out>
  using matrix = parameter<Label, extents<Out, Shape.latent>, normal(0.02)>;
  static constexpr matrix<"k_b.weight", Shape.heads * Shape.nope> k_b{};
  static constexpr matrix<"v_b.weight", Shape.heads * Shape.value> v_b{};
  using input = inputs<features<Shape.heads * Shape.nope>, features<Shape.heads * Shape.rope>,
                       features<Shape.latent>, features<Shape.rope>>;
  static constexpr std::size_t sequence = Sequence;

  static constexpr auto formula(auto q, auto rotated_q, auto latent, auto rotated_k) {
    using plait::formula::einsum, plait::formula::map, plait::formula::causal_softmax;
    using plait::formula::heads, plait::formula::side_by_side, plait::formula::transposed;
    constexpr plait::formula::number<static_cast<long long>(Shape.nope + Shape.rope), 1> width{};
    auto const turned = heads<Shape.heads>(rotated_q);
    auto const k = heads<Shape.heads>(matmul(latent, transposed(k_b)));
    auto const v = heads<Shape.heads>(matmul(latent, transposed(v_b)));
    auto const shared = map(detail::for_each_head{}, rotated_k, turned);
    auto const scores =
        einsum<"thd,shd->hts">(heads<Shape.heads>(q), k) + einsum<"thd,shd->hts">(turned, shared);
    return side_by_side(
        einsum<"hts,she->the">(causal_softmax(scores * plait::formula::rsqrt(width)), v));
  }
};

/// Options of multi_head_latent_attention.
struct latent_attention_options {
  rms_norm_options norm{};  ///< options of the norm of the latent
  rotary_options rotary{};
};

namespace detail {

template <std::size_t Width, latent_attention_shape Shape, std::size_t Sequence,
          latent_attention_options Options>
struct latent_branches {
  template <std::size_t Out>
  using product = linear<Width, Out, {.bias = false, .order = weight_order::output_input}>;
  template <std::size_t Out>
  using turned = rotary<Out, Shape.rope, Sequence, Options.rotary>;

  using q = named<"q_nope", product<Shape.heads * Shape.nope>>;
  using rotated_q = sequential<named<"q_rope", product<Shape.heads * Shape.rope>>,
                               turned<Shape.heads * Shape.rope>>;
  using latent = sequential<named<"kv_a", product<Shape.latent>>,
                            named<"kv_a_layernorm", rms_norm<Shape.latent, Options.norm>>>;
  using rotated_k = sequential<named<"k_rope", product<Shape.rope>>, turned<Shape.rope>>;
};

}  // namespace detail

/// Multi-head latent attention of DeepSeek-V2-Lite: keys and values follow from one normalised
/// latent row, which a cache would store instead of them.
///
/// DeepSeek's files have q_nope and q_rope as one matrix, kv_a and k_rope as another, and k_b and
/// v_b as a third; its pairs of rotated features are neighbours.
/// Shapes: x, y (Sequence * batch, Width); o_proj.weight (Width, heads value).
/// Moves:  as latent_attention, with one all_reduce of the output. Each rank makes the latent.
/// Source: DeepSeek-AI, "DeepSeek-V2", arXiv 2405.04434.
///
/// Example (tests/reference/names_in_use_test.cpp latent_attention):
///     using of_latent = plait::nn::multi_head_latent_attention<
///         256, {.heads = 8, .latent = 64, .nope = 32, .rope = 16, .value = 32}, 512>;
template <std::size_t Width, latent_attention_shape Shape, std::size_t Sequence,
          latent_attention_options Options = latent_attention_options{},
          class Branches = detail::latent_branches<Width, Shape, Sequence, Options>>
using multi_head_latent_attention =
    sequential<fan_out<typename Branches::q, typename Branches::rotated_q,
                       typename Branches::latent, typename Branches::rotated_k>,
               named<"", latent_attention<Shape, Sequence>>,
               named<"o_proj", linear<Shape.heads * Shape.value, Width,
                                      {.bias = false, .order = weight_order::output_input}>>>;

}  // namespace plait::nn
