// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <plait/nn/lora.hpp>
#include <plait/plait.hpp>

// The numbers of a model of train_llama, and the choice of the trained parameters.
namespace train_llama {

using plait::fan_out;
using plait::frozen;
using plait::named;
using plait::residual;
using plait::sequential;
using plait::nn::attention_options;
using plait::nn::embedding;
using plait::nn::linear;
using plait::nn::linear_options;
using plait::nn::rms_norm_options;
using plait::nn::rotary_options;
using plait::nn::weight_order;

// example-begin numbers
/// The numbers that only Gemma 3 has.
struct gemma_numbers {
  /// The last of every `pattern` layers sees all earlier keys, and the others have the window of
  /// shape::attention; 0 if the model is not a Gemma.
  std::size_t pattern = 0;
  std::size_t local_base = 10000;  ///< rope_local_base_freq: the rope_theta of layers with a window
  std::size_t query_scalar = 256;  ///< query_pre_attn_scalar
};

/// The sizes and other numbers of a Llama, Mistral, Qwen2, Qwen3 or Gemma 3, with the names and
/// values of its config.json.
struct shape {
  std::size_t layers, width, hidden, heads, key_value_heads, head_width, sequence, vocabulary;
  rms_norm_options norm{};
  rotary_options rotary{};
  attention_options attention{};
  bool qkv_bias = false;  ///< Qwen2: the products of queries, keys and values have a bias
  bool qk_norm = false;   ///< Qwen3: each head's query and key is normalised
  gemma_numbers gemma{};
};

/// Options of a linear layer without bias, stored as PyTorch's Linear.
inline constexpr linear_options matrix{.bias = false, .order = weight_order::output_input};
// example-end

// example-begin trained
/// Trains all parameters of a model.
struct all_trained {
  template <class L>
  using layer = L;
  template <class L>
  using adapted = L;
};

/// Freezes a model, and trains two additional matrices for each `adapted` layer.
template <std::size_t Rank, std::size_t Alpha = 2 * Rank>
struct lora_trained {
  template <class L>
  using layer = frozen<L>;
  template <class L>
  using adapted = plait::nn::lora<L, Rank, Alpha>;
};
// example-end

}  // namespace train_llama
