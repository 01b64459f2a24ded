// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace plait {

/// A description of a program's model, with the names of the fields in the config.json of
/// transformers. `check_config` compares a config.json with this description.
///
/// A program must set `sequence` and the sizes whose default is 0, unless the comment of a size
/// gives 0 a meaning. Each member has the name of the field in Llama's config.json. Other model
/// types have other names for some fields, such as n_embd for hidden_size.
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
    std::string rope_type = "default";  ///< also linear, llama3, or another type of transformers
    double factor = 1;
    double low_freq_factor = 1;
    double high_freq_factor = 4;
    std::size_t original_max_position_embeddings = 8192;
  };

  /// The model types that a file may have: first the model type of the program's model, then other
  /// model types that compute the same from the same numbers.
  std::vector<std::string> model_type{"llama"};
  /// The names of classes that a file may list in architectures. If empty, the only allowed class
  /// is the language model of the file's model type, such as LlamaForCausalLM.
  std::vector<std::string> architectures{};
  std::size_t vocab_size = 0;
  std::size_t hidden_size = 0;
  std::size_t intermediate_size = 0;
  std::size_t num_hidden_layers = 0;
  std::size_t num_attention_heads = 0;
  std::size_t num_key_value_heads = 0;  ///< 0: num_attention_heads
  std::size_t head_dim = 0;             ///< 0: hidden_size / num_attention_heads
  std::string hidden_act = "silu";
  double rms_norm_eps = 1e-6;  ///< the field layer_norm_epsilon, for a model with layer_norm
  double rope_theta = 10000;
  double rope_local_base_freq = 10000;  ///< the rope_theta of layers with a window; only in Gemma 3
  rope_numbers rope_scaling{};
  std::size_t sliding_window = 0;  ///< 0: no window
  /// For each layer "full_attention" or "sliding_attention". If empty, all layers have the window.
  std::vector<std::string> layer_types{};
  bool attention_bias = false;
  bool mlp_bias = false;
  /// True if the output head uses the weights of the embedding. nullopt: the program can load
  /// weights with or without a separate head.
  std::optional<bool> tie_word_embeddings = false;
  std::size_t sequence = 0;  ///< number of positions, at most the file's max_position_embeddings
  /// Names and values, as JSON, of further fields that change what the program's model computes:
  /// `{{"logit_scale", "0.0625"}}`. A file must have these values.
  std::vector<std::pair<std::string, std::string>> others{};
};

}  // namespace plait
