// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>

#include <plait/io/model_config.hpp>
#include <plait/nn/geglu.hpp>
#include <plait/nn/interleaved.hpp>
#include <plait/nn/qk_norm.hpp>
#include <plait/nn/zero_centred_rms_norm.hpp>
#include <plait/plait.hpp>

#include "shape.hpp"

// The blocks of Gemma 3; their parameters have Hugging Face's names.
namespace train_llama {

/// Returns the square root of a positive number, for scale<Width, Factor>.
consteval plait::ext::nano_fraction root_of(double number) {
  double root = number > 1 ? number : 1;
  for (int i = 0; i < 100; ++i) root = (root + number / root) / 2;  // Newton's method
  return plait::fraction(root);
}

// example-begin gemma
/// The blocks of a Gemma 3. The norms multiply by 1 + weight.
template <shape S, class Trained>
struct gemma_block {
  static_assert(!S.qkv_bias && !S.qk_norm && S.gemma.query_scalar > 0,
                "a shape with .gemma has .qkv_bias, .qk_norm or a .query_scalar of 0; leave the "
                "first two out, as a Gemma has no biases and always normalises queries and keys, "
                "and give query_pre_attn_scalar");
  template <class L>
  using whole = typename Trained::template layer<L>;
  template <class L>
  using adapted = typename Trained::template adapted<L>;

  static constexpr std::size_t query_width = S.heads * S.head_width;
  static constexpr std::size_t key_width = S.key_value_heads * S.head_width;
  static constexpr rotary_options local_rotary{.base = S.gemma.local_base};
  using norm = whole<plait::nn::zero_centred_rms_norm<S.width, S.norm>>;
  template <std::size_t Width>
  using qk_norm = whole<plait::nn::qk_norm<Width, S.head_width,
                                           {.epsilon = S.norm.epsilon, .one_plus_weight = true}>>;
  template <class Local, class Full>
  using interleaved = plait::nn::interleaved<S.gemma.pattern, Local, Full>;
  template <std::size_t Width>
  using rotary = interleaved<plait::nn::rotary<Width, S.head_width, S.sequence, local_rotary>,
                             plait::nn::rotary<Width, S.head_width, S.sequence, S.rotary>>;
  template <attention_options Options>
  using heads = plait::nn::attention<S.heads, S.key_value_heads, S.head_width, S.sequence, Options>;
  // attention divides the scores by sqrt(head_width), and Gemma by sqrt(query_scalar).
  using query_scale =
      plait::nn::scale<query_width, root_of(double(S.head_width) / double(S.gemma.query_scalar))>;
  using turned_q = std::conditional_t<S.gemma.query_scalar == S.head_width, rotary<query_width>,
                                      sequential<rotary<query_width>, query_scale>>;

  using q = sequential<named<"q_proj", adapted<linear<S.width, query_width, matrix>>>,
                       named<"q_norm", qk_norm<query_width>>, turned_q>;
  using k = sequential<named<"k_proj", whole<linear<S.width, key_width, matrix>>>,
                       named<"k_norm", qk_norm<key_width>>, rotary<key_width>>;
  using v = named<"v_proj", adapted<linear<S.width, key_width, matrix>>>;
  using attention = sequential<
      fan_out<q, k, v>,
      interleaved<heads<S.attention>, heads<attention_options{.causal = S.attention.causal}>>,
      named<"o_proj", whole<linear<query_width, S.width, matrix>>>>;
  using mlp = whole<plait::nn::geglu<S.width, S.hidden>>;
  using type =
      sequential<residual<sequential<named<"input_layernorm", norm>, named<"self_attn", attention>,
                                     named<"post_attention_layernorm", norm>>>,
                 residual<sequential<named<"pre_feedforward_layernorm", norm>, named<"mlp", mlp>,
                                     named<"post_feedforward_layernorm", norm>>>>;
};

/// The scale of a Gemma's embeddings: the square root of their width.
template <shape S>
using embedding_scale = plait::nn::scale<S.width, root_of(double(S.width))>;
// example-end

/// Sets the fields of a configuration that Gemma 3 does not share with Llama.
[[gnu::cold]] inline void set_gemma_fields(plait::model_config& out, shape const& of) {
  out.model_type = {"gemma3_text"};
  out.hidden_act = "gelu_pytorch_tanh";
  out.rope_local_base_freq = static_cast<double>(of.gemma.local_base);
  for (std::size_t layer = 1; layer <= of.layers; ++layer)
    out.layer_types.push_back(layer % of.gemma.pattern == 0 ? "full_attention"
                                                            : "sliding_attention");
  // check_config takes head_dim for this number if it is not given.
  if (of.gemma.query_scalar != of.head_width)
    out.others = {{"query_pre_attn_scalar", std::to_string(of.gemma.query_scalar)}};
}

}  // namespace train_llama
