// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <plait/data/token_shards.hpp>
#include <plait/io/model_config.hpp>
#include <plait/nn/qk_norm.hpp>
#include <plait/plait.hpp>

#include "gemma.hpp"
#include "shape.hpp"

// The models of train_llama, as types; their parameters have Hugging Face's names.
namespace train_llama {

// example-begin block
/// The blocks of a Llama, Mistral, Qwen2 or Qwen3. `Trained` selects the trained parameters.
template <shape S, class Trained>
struct llama_block {
  template <class L>
  using whole = typename Trained::template layer<L>;
  template <class L>
  using adapted = typename Trained::template adapted<L>;

  static constexpr std::size_t query_width = S.heads * S.head_width;
  static constexpr std::size_t key_width = S.key_value_heads * S.head_width;
  using norm = whole<plait::nn::rms_norm<S.width, S.norm>>;
  static constexpr linear_options qkv{.bias = S.qkv_bias, .order = matrix.order};
  template <std::size_t Width>
  using rotary = plait::nn::rotary<Width, S.head_width, S.sequence, S.rotary>;
  template <std::size_t Width>
  using qk_norm = whole<plait::nn::qk_norm<Width, S.head_width, {.epsilon = S.norm.epsilon}>>;
  template <plait::ext::name Norm, std::size_t Width>
  using turned =
      std::conditional_t<S.qk_norm, sequential<named<Norm, qk_norm<Width>>, rotary<Width>>,
                         rotary<Width>>;
  using q = sequential<named<"q_proj", adapted<linear<S.width, query_width, qkv>>>,
                       turned<"q_norm", query_width>>;
  using k = sequential<named<"k_proj", whole<linear<S.width, key_width, qkv>>>,
                       turned<"k_norm", key_width>>;
  using v = named<"v_proj", adapted<linear<S.width, key_width, qkv>>>;
  using attention = sequential<
      fan_out<q, k, v>,
      plait::nn::attention<S.heads, S.key_value_heads, S.head_width, S.sequence, S.attention>,
      named<"o_proj", whole<linear<query_width, S.width, matrix>>>>;
  using mlp = whole<plait::nn::swiglu<S.width, S.hidden>>;
  using type = sequential<
      residual<sequential<named<"input_layernorm", norm>, named<"self_attn", attention>>>,
      residual<sequential<named<"post_attention_layernorm", norm>, named<"mlp", mlp>>>>;
};
// example-end

// example-begin model
/// The blocks of a model, and its table, whose rows are scaled in a Gemma.
template <shape S, class Trained>
using block_of =
    std::conditional_t<(S.gemma.pattern > 0), gemma_block<S, Trained>, llama_block<S, Trained>>;
template <shape S, class Table>
using embedded = std::conditional_t<(S.gemma.pattern > 0),
                                    sequential<named<"embed_tokens", Table>, embedding_scale<S>>,
                                    named<"embed_tokens", Table>>;

/// A model followed by `Head`.
template <shape S, class Trained, class Table, class Head>
using llama_with = sequential<
    named<"model",
          sequential<embedded<S, Table>,
                     named<"layers", plait::repeat<S.layers, typename block_of<S, Trained>::type>>,
                     named<"norm", typename block_of<S, Trained>::norm>>>,
    named<"lm_head", Head>>;

/// A Llama whose head has its own matrix.
template <shape S, class Trained = all_trained>
using llama =
    llama_with<S, Trained, typename Trained::template layer<embedding<S.vocabulary, S.width>>,
               typename Trained::template layer<linear<S.width, S.vocabulary, matrix>>>;

// example-end

/// A Llama whose head uses the table of the embedding. On a tensor axis, both layers cut this table
/// by vocabulary.
template <shape S>
using free_head = linear<S.width, S.vocabulary, matrix>;
template <shape S>
using tied_llama =
    llama_with<S, all_trained, plait::use_form<"vocabulary", embedding<S.vocabulary, S.width>>,
               plait::use_form<"column", plait::tied<free_head<S>, typename free_head<S>::weight,
                                                     "model.embed_tokens.weight">>>;

// example-begin config
/// The numbers that config.json must have for this model. `is_tied` is not given if the program
/// takes weights with and without a head of their own.
[[gnu::cold]] inline plait::model_config config_of(shape const& of, std::optional<bool> is_tied) {
  using plait::nn::rotary_scaling;
  auto const scaling = of.rotary.scaling;
  using names = std::vector<std::string>;
  plait::model_config out{
      .model_type = of.qk_norm    ? names{"qwen3"}
                    : of.qkv_bias ? names{"qwen2"}
                                  : names{"llama", "mistral"},
      .vocab_size = of.vocabulary,
      .hidden_size = of.width,
      .intermediate_size = of.hidden,
      .num_hidden_layers = of.layers,
      .num_attention_heads = of.heads,
      .num_key_value_heads = of.key_value_heads,
      .head_dim = of.head_width,
      .rms_norm_eps = of.norm.epsilon.number(),
      .rope_theta = static_cast<double>(of.rotary.base),
      .rope_scaling = {.rope_type = scaling == rotary_scaling::llama3   ? "llama3"
                                    : scaling == rotary_scaling::linear ? "linear"
                                                                        : "default",
                       .factor = of.rotary.factor.number(),
                       .low_freq_factor = of.rotary.low_frequency_factor.number(),
                       .high_freq_factor = of.rotary.high_frequency_factor.number(),
                       .original_max_position_embeddings = of.rotary.original_positions},
      .sliding_window = of.attention.window,
      .tie_word_embeddings = is_tied,
      .sequence = of.sequence};
  if (of.gemma.pattern > 0) set_gemma_fields(out, of);
  return out;
}
// example-end

namespace sizes {

/// A Llama on bytes, with two blocks.
inline constexpr shape tiny_shape{.layers = 2,
                                  .width = 64,
                                  .hidden = 160,
                                  .heads = 4,
                                  .key_value_heads = 2,
                                  .head_width = 16,
                                  .sequence = 64,
                                  .vocabulary = plait::byte_text::vocabulary};
template <std::size_t Lora>
struct tiny {
  using text = plait::byte_text;
  static constexpr std::size_t sequence = tiny_shape.sequence, vocabulary = tiny_shape.vocabulary;
  // The head starts as a copy of the table if the weights have none.
  static plait::model_config config() { return config_of(tiny_shape, {}); }
  using trained = std::conditional_t<Lora == 0, all_trained, lora_trained<Lora == 0 ? 1 : Lora>>;
  using objective =
      plait::objective<llama<tiny_shape, trained>, plait::nn::cross_entropy<vocabulary>>;
};

// example-begin shape
/// Llama-3.2-1B on 4096 tokens.
inline constexpr train_llama::shape llama_1b_shape{
    .layers = 16,
    .width = 2048,
    .hidden = 8192,
    .heads = 32,
    .key_value_heads = 8,
    .head_width = 64,
    .sequence = 4096,
    .vocabulary = 128256,
    .rotary = {.base = 500000,
               .scaling = plait::nn::rotary_scaling::llama3,
               .factor = plait::fraction(32.0)}};
// example-end

template <std::size_t>
struct llama_1b {
  static constexpr bool explains_alone = true;
  using text = plait::token_shards;
  static constexpr std::size_t sequence = llama_1b_shape.sequence,
                               vocabulary = llama_1b_shape.vocabulary;
  static plait::model_config config() { return config_of(llama_1b_shape, true); }
  using objective =
      plait::objective<tied_llama<llama_1b_shape>, plait::nn::cross_entropy<vocabulary>>;
};

}  // namespace sizes

}  // namespace train_llama
