// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/layer/combinators.hpp"
#include "plait/layer/layer.hpp"
#include "plait/nn/linear.hpp"

namespace plait::nn {

/// Causal attention of each head on its query, key and value, given side by side.
///
/// Shapes: x (Sequence * batch, 3 Width), y (Sequence * batch, Width).
/// Moves:  heads are cut like features; the sequence is whole.
template <std::size_t Width, std::size_t Heads, std::size_t Sequence>
struct attention_heads {
  static_assert(Width % Heads == 0,
                "attention_heads<Width, Heads, Sequence>: Width is not a multiple of Heads; each "
                "head takes Width / Heads features");
  using concept_tag = layer_tag;
  using input = features<3 * Width>;
  using output = features<Width>;
  using forms = plait::forms<whole, form<"heads", shard<dim::features, 3>, shard<dim::features>>>;
  using log_sum = slot<"log_sum", Heads, follows::features, slot_element::accumulate>;
  // At most a block of queries against all keys, twice.
  using scores = slot<"scores", 0, 2 * Sequence * Sequence, slot_element::accumulate>;
  using saved = plait::saved<input_slot, output_slot, log_sum>;
  using scratch = plait::scratch<scores>;
  static constexpr std::size_t sequence = Sequence;
  static constexpr std::size_t units = Heads;
  static constexpr double flops_per_row = 4.0 * Width * Sequence;
  static constexpr std::size_t head_width = Width / Heads;

  static void prepare(auto& ops, auto const& l) { ops.prepare_attention(l.x, head_width); }
  static void forward(auto& ops, auto const& l) {
    ops.attention(l.x, l.y, l.saved[log_sum{}], l.scratch[scores{}], head_width);
  }
  static void backward_input(auto& ops, auto const& l) {
    ops.attention_backward(l.saved[input_slot{}], l.saved[output_slot{}], l.saved[log_sum{}], l.dy,
                           l.dx, l.scratch[scores{}], head_width);
  }
};

/// Multi-head causal self-attention with its two projections, "c_attn" and "c_proj".
///
/// Source: Vaswani et al., "Attention is all you need", 2017; recomputation of the probabilities
///         from their log-sum as in Dao et al., "FlashAttention", 2022.
template <std::size_t Width, std::size_t Heads, std::size_t Sequence,
          initializer Projection = normal(0.02)>
using causal_self_attention =
    sequential<named<"c_attn", linear<Width, 3 * Width, linear_options{.parts = 3}>>,
               attention_heads<Width, Heads, Sequence>,
               named<"c_proj", linear<Width, Width, linear_options{.weight = Projection}>>>;

}  // namespace plait::nn
