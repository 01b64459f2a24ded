// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>

#include "plait/backend/attention_shape.hpp"
#include "plait/layer/combinators.hpp"
#include "plait/layer/layer.hpp"
#include "plait/nn/linear.hpp"

namespace plait::nn {

/// Causal attention of each head to its own query, key and value. All queries, keys and values are
/// side by side in x.
///
/// Shapes: x (Sequence * batch, 3 Width), y (Sequence * batch, Width).
/// Moves:  nothing; heads are cut like features, and each rank has the whole sequence.
template <std::size_t Width, std::size_t Heads, std::size_t Sequence>
struct attention_heads {
  static_assert(Width % Heads == 0,
                "attention_heads<Width, Heads, Sequence>: Width is not a multiple of Heads, but "
                "each head has Width / Heads features; correct one of the two numbers");
  using concept_tag = layer_tag;
  using input = features<3 * Width>;
  using output = features<Width>;
  using forms = plait::forms<whole, form<"heads", shard<dim::features, 3>, shard<dim::features>>>;
  using log_sum = slot<"log_sum", Heads, follows::features, slot_element::accumulate>;
  using saved = plait::saved<input_slot, output_slot, log_sum>;
  static constexpr std::size_t sequence = Sequence;
  static constexpr std::size_t units = Heads;
  static constexpr double flops_per_row = 4.0 * Width * Sequence;
  static constexpr std::size_t head_width = Width / Heads;

  static void prepare(auto& ops, auto const& l) { ops.prepare_attention(l.x, head_width); }
  static void forward(auto& ops, auto const& l) {
    ops.attention(l.x, l.y, l.saved[log_sum{}], head_width);
  }
  static void backward_input(auto& ops, auto const& l) {
    ops.attention_backward(l.saved[input_slot{}], l.saved[output_slot{}], l.saved[log_sum{}], l.dy,
                           l.dx, head_width);
  }
};

/// Multi-head causal self-attention with its input projection "c_attn" and its output projection
/// "c_proj".
///
/// Source: Vaswani et al., "Attention is all you need", 2017; the backward recomputes the
///         probabilities from the log-sum-exp of the scores as in Dao et al., "FlashAttention",
///         2022.
template <std::size_t Width, std::size_t Heads, std::size_t Sequence,
          initializer Projection = normal(0.02)>
using causal_self_attention =
    sequential<named<"c_attn", linear<Width, 3 * Width, linear_options{.parts = 3}>>,
               attention_heads<Width, Heads, Sequence>,
               named<"c_proj", linear<Width, Width, linear_options{.weight = Projection}>>>;

using ext::attention_options;

/// Attention of `Heads` query heads. Heads / KeyValueHeads query heads share one key-value head, as
/// in grouped-query attention. The options limit the keys that a query sees.
///
/// Shapes: inputs q (Sequence * batch, Heads HeadWidth), k and v (Sequence * batch, KeyValueHeads
///         HeadWidth); y as q.
/// Moves:  "heads": if the number of ranks divides KeyValueHeads, all inputs are cut by heads.
///         "groups": if the number of ranks is a multiple of KeyValueHeads and divides Heads, only
///         queries are cut, and each rank reads one key-value head; the gradients of k and v are
///         summed over the ranks. In both forms each rank has the whole sequence.
///
/// Example (tests/reference/names_in_use_test.cpp grouped_attention):
///     using q = plait::nn::linear<64, 64>;
///     using k_or_v = plait::nn::linear<64, 16>;  // one of four heads of 16
///     using attention = plait::sequential<plait::fan_out<q, k_or_v, k_or_v>,
///                                         plait::nn::attention<4, 1, 16, 128, {.window = 32}>>;
template <std::size_t Heads, std::size_t KeyValueHeads, std::size_t HeadWidth, std::size_t Sequence,
          attention_options Options = attention_options{}>
struct attention {
  using groups = ext::head_groups<Heads, KeyValueHeads, HeadWidth, Options>;
  static_assert(
      groups::options.window <= Sequence,
      "attention<..., Sequence, {.window}>: the window is longer than the sequence; set .window to "
      "at most Sequence, or leave .window out so that queries see all earlier keys");
  using concept_tag = layer_tag;
  using input = inputs<features<Heads * HeadWidth>, features<KeyValueHeads * HeadWidth>,
                       features<KeyValueHeads * HeadWidth>>;
  using output = features<Heads * HeadWidth>;
  using by_heads = form<"heads", shard<dim::features>, shard<dim::features>>;
  using by_groups = form<"groups", each<shard<dim::features>, replicate, replicate>,
                         shard<dim::features>, units_of<Heads, KeyValueHeads>>;
  using forms =
      std::conditional_t<Heads == KeyValueHeads, plait::forms<whole, by_heads>,
                         std::conditional_t<KeyValueHeads == 1, plait::forms<whole, by_groups>,
                                            plait::forms<whole, by_heads, by_groups>>>;
  using log_sum = slot<"log_sum", Heads, follows::features, slot_element::accumulate>;
  using saved = plait::saved<input_slot, output_slot, log_sum>;
  static constexpr std::size_t sequence = Sequence;
  static constexpr std::size_t units = KeyValueHeads;
  static constexpr double flops_per_row =
      4.0 * Heads * HeadWidth * (Options.window != 0 ? Options.window : Sequence);

  static void prepare(auto& ops, auto const& l) { ops.prepare_attention(groups{}, l.x); }
  static void forward(auto& ops, auto const& l) {
    ops.attention(groups{}, l.x, l.y, l.saved[log_sum{}]);
  }
  static void backward_input(auto& ops, auto const& l) {
    ops.attention_backward(groups{}, l.saved[input_slot{}], l.saved[output_slot{}],
                           l.saved[log_sum{}], l.dy, l.dx);
  }
};

}  // namespace plait::nn
