// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace plait {

/// The numbers of a program's model, with the names that they have in the config.json of
/// transformers. `check_config` compares a file with them.
///
/// The sizes without a default and `sequence` have to be given. A member has the name of Llama's
/// field; other model types have other names for some of them, such as n_embd for hidden_size.
///
/// Example (tests/checkpoint/check_config_test.cpp model):
///     plait::model_config const model{.vocab_size = 256,
///                                     .hidden_size = 64,
///                                     .intermediate_size = 128,
///                                     .num_hidden_layers = 2,
///                                     .num_attention_heads = 4,
///                                     .num_key_value_heads = 2,
///                                     .rms_norm_eps = 1e-6,
///                                     .rope_theta = 10000,
///                                     .sequence = 64};
struct model_config {
  /// The scaling of rotary positions. The numbers after `factor` are for the rope_type llama3.
  struct rope_numbers {
    std::string rope_type = "default";  ///< or linear, llama3, or another name of transformers
    double factor = 1;
    double low_freq_factor = 1;
    double high_freq_factor = 4;
    std::size_t original_max_position_embeddings = 8192;
  };

  /// The model types of which a file may be: the model's own, then others that compute the same
  /// from the same numbers.
  std::vector<std::string> model_type{"llama"};
  /// The classes of which a file may be; empty: the language model of the file's model type, such
  /// as LlamaForCausalLM.
  std::vector<std::string> architectures{};
  std::size_t vocab_size = 0;
  std::size_t hidden_size = 0;
  std::size_t intermediate_size = 0;
  std::size_t num_hidden_layers = 0;
  std::size_t num_attention_heads = 0;
  std::size_t num_key_value_heads = 0;  ///< 0: num_attention_heads
  std::size_t head_dim = 0;             ///< 0: hidden_size / num_attention_heads
  std::string hidden_act = "silu";
  double rms_norm_eps = 1e-6;  ///< or layer_norm_epsilon, for a model with layer_norm
  double rope_theta = 10000;
  double rope_local_base_freq = 10000;  ///< rope_theta of layers with a window, in Gemma 3 alone
  rope_numbers rope_scaling{};
  std::size_t sliding_window = 0;  ///< 0: none
  /// For each layer full_attention or sliding_attention; empty: all layers have the window.
  std::vector<std::string> layer_types{};
  bool attention_bias = false;
  bool mlp_bias = false;
  /// Not given: the program takes weights with and without a head of their own.
  std::optional<bool> tie_word_embeddings = false;
  std::size_t sequence = 0;  ///< number of positions, at most the file's max_position_embeddings
  /// Names and values, as JSON, of further fields that the model heeds: `{{"logit_scale",
  /// "0.0625"}}`. A file must have these values.
  std::vector<std::pair<std::string, std::string>> others{};
};

}  // namespace plait
