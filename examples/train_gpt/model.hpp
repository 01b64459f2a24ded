// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <plait/data/token_shards.hpp>
#include <plait/io/model_config.hpp>
#include <plait/plait.hpp>

// The model and the plans of train_gpt, as types.
namespace train_gpt {

using plait::named;
using plait::residual;
using plait::sequential;
using plait::nn::linear_options;  // nvcc needs the unqualified name in a template argument

/// deviation / sqrt(2 layers): GPT-2 initialises the projections at the end of a residual branch
/// so.
consteval plait::initializer residual_start(double deviation, double layers) {
  double root = layers;
  for (int i = 0; i < 50; ++i) root = 0.5 * (root + 2 * layers / root);
  return plait::normal(deviation / root);
}

/// The body that all sizes share.
template <std::size_t Layers, std::size_t Width, std::size_t Heads, std::size_t Sequence>
struct gpt_body {
  static constexpr std::size_t sequence = Sequence;
  static constexpr plait::initializer projection = residual_start(0.02, Layers);

  /// The numbers that config.json must have for this model. --init compares the head's weights.
  [[gnu::cold]] static plait::model_config config_for(std::size_t vocabulary) {
    return {.model_type = {"gpt2"},
            .vocab_size = vocabulary,
            .hidden_size = Width,
            .intermediate_size = 4 * Width,
            .num_hidden_layers = Layers,
            .num_attention_heads = Heads,
            .hidden_act = "gelu_new",
            .rms_norm_eps = 1e-5,
            .attention_bias = true,
            .mlp_bias = true,
            .tie_word_embeddings = {},
            .sequence = Sequence};
  }

  using attention = plait::nn::causal_self_attention<Width, Heads, Sequence, projection>;
  using mlp = sequential<
      named<"c_fc", plait::nn::linear<Width, 4 * Width>>, plait::nn::gelu<4 * Width>,
      named<"c_proj", plait::nn::linear<4 * Width, Width, linear_options{.weight = projection}>>>;
  using block = sequential<
      residual<sequential<named<"ln_1", plait::nn::layer_norm<Width>>, named<"attn", attention>>>,
      residual<sequential<named<"ln_2", plait::nn::layer_norm<Width>>, named<"mlp", mlp>>>>;

  template <class Embedding, class Head>
  using model_with =
      sequential<named<"wte", Embedding>, named<"wpe", plait::nn::positions<Sequence, Width>>,
                 named<"h", plait::repeat<Layers, block>>,
                 named<"ln_f", plait::nn::layer_norm<Width>>, named<"lm_head", Head>>;
};

/// A GPT on bytes. Its head has its own weights.
template <std::size_t Layers, std::size_t Width, std::size_t Heads, std::size_t Sequence>
struct byte_gpt : gpt_body<Layers, Width, Heads, Sequence> {
  using text = plait::byte_text;
  static constexpr std::size_t vocabulary = text::vocabulary;
  static plait::model_config config() { return byte_gpt::config_for(vocabulary); }

  using head = plait::nn::linear<Width, vocabulary,
                                 linear_options{.bias = false,
                                                .order = plait::nn::weight_order::output_input}>;
  using model = typename gpt_body<Layers, Width, Heads, Sequence>::template model_with<
      plait::nn::embedding<vocabulary, Width>, head>;
  using objective = plait::objective<model, plait::nn::cross_entropy<vocabulary>>;
};

/// A GPT on tokens. Its head is the table of the embedding (tied weights). The table is padded to
/// PaddedTo rows so that the number of ranks divides it. On a tensor axis embedding and head are
/// cut by vocabulary.
template <std::size_t Layers, std::size_t Width, std::size_t Heads, std::size_t Sequence,
          std::size_t Vocabulary, std::size_t PaddedTo>
struct token_gpt : gpt_body<Layers, Width, Heads, Sequence> {
  using text = plait::token_shards;
  static constexpr std::size_t vocabulary = Vocabulary;
  static plait::model_config config() { return token_gpt::config_for(vocabulary); }

  using table = plait::nn::embedding<Vocabulary, Width, plait::normal(0.02), PaddedTo>;
  using free_head = plait::nn::linear<Width, Vocabulary,
                                      linear_options{.bias = false,
                                                     .order = plait::nn::weight_order::output_input,
                                                     .padded_to = PaddedTo}>;
  using head = plait::tied<free_head, typename free_head::weight, "wte.weight">;
  using model = typename gpt_body<Layers, Width, Heads, Sequence>::template model_with<
      plait::use_form<"vocabulary", table>, plait::use_form<"column", head>>;
  using objective =
      plait::objective<model, plait::nn::cross_entropy<Vocabulary, plait::nn::cross_entropy_options{
                                                                       .padded_to = PaddedTo}>>;
};

namespace sizes {
using tiny = byte_gpt<2, 64, 4, 64>;
using small = byte_gpt<4, 256, 8, 128>;
using gpt2 = token_gpt<12, 768, 12, 1024, 50257, 50304>;
}  // namespace sizes

namespace plans {
template <int Ranks>
using dp = plait::data_parallel<Ranks>;
template <int Ranks>
using tp = plait::tensor_parallel<Ranks>;
template <int Ranks>
using pp = plait::pipeline<Ranks>;

// example-begin plans
using serial = plait::serial;
using dp2 = dp<2>;
using tp2 = tp<2>;
using pp2 = pp<2>;
using dp2_tp2 = plait::hybrid<dp<2>, tp<2>>;
using dp2_pp2 = plait::hybrid<pp<2>, dp<2>>;
using tp2_pp2 = plait::hybrid<pp<2>, tp<2>>;
using dp2_tp2_pp2 = plait::hybrid<pp<2>, dp<2>, tp<2>>;
using dp4 = dp<4>;
using tp4 = tp<4>;
using pp4 = pp<4>;
// example-end

// Pipelines with several chunks of layers on each stage, or with more microbatches in flight.
using pp2_interleaved = plait::pipeline<2, plait::interleaved<2>>;
using pp4_interleaved = plait::pipeline<4, plait::interleaved<2>>;
using pp2_breadth = plait::pipeline<2, plait::looped_breadth_first<2>>;
using pp4_eager = plait::pipeline<4, plait::eager_one_forward_one_backward>;

// Plans that cut gradients (ZeRO-2), and also parameters (ZeRO-3).
using dp2_zero2_pp2 = plait::hybrid<pp<2>, plait::data_parallel<2, plait::zero<2>>>;
using dp4_zero3 = plait::data_parallel<4, plait::zero<3>>;
using dp4_within2_zero3 = plait::data_parallel<4, plait::within<2>, plait::zero<3>>;

// Data ranks that send gradients as bfloat16.
using dp4_bf16 = plait::data_parallel<4, plait::compressed<plait::bfloat16>>;

// A plan whose first data rank takes three quarters of each batch, for a device that is three times
// as fast.
using dp2_shares3_1 = plait::data_parallel<2, plait::shares<3, 1>>;

// Each step applies the gradients of the step before.
using dp2_delayed = plait::data_parallel<2, plait::delayed<1>>;

// Replicas, of one rank or of two, that train on their own and make a common update every 8 steps.
using dp4_local8 = plait::data_parallel<4, plait::local_steps<8>>;
using dp4_within2_local8 = plait::data_parallel<4, plait::within<2>, plait::local_steps<8>>;

// Tensor parallelism in which the activations between the layers are cut by positions (sequence
// parallelism).
using tp2_sharded = plait::tensor_parallel<2, plait::sequence::sharded>;

// Plans for --reproducible. The number of data ranks is given at launch.
using dpN = dp<plait::at_launch>;
using dpN_zero = plait::data_parallel<plait::at_launch, plait::zero<1>>;
using dpN_tp2 = plait::hybrid<dpN, tp<2>>;
using dpN_pp2 = plait::hybrid<pp<2>, dpN>;
using dpN_gpipe2 = plait::hybrid<plait::pipeline<2, plait::gpipe>, dpN>;
}  // namespace plans

}  // namespace train_gpt
