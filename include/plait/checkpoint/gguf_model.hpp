// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plait/checkpoint/gguf_file.hpp"
#include "plait/core/header_only.hpp"
#include "plait/io/safetensors_header.hpp"

namespace plait {

/// The numbers of a model that the shapes of its weights do not tell, for `save_gguf`.
///
///     auto const base = plait::gguf_model::read("Llama-3.2-1B");
///     plait::gguf_model const own{.context_length = 4096, .heads = 32, .key_value_heads = 8,
///                                 .norm_epsilon = 1e-5, .rope_base = 500000};
struct gguf_model {
  /// The scaling of rotary frequencies in Llama 3.1 and later, under the names of nn::rotary.
  struct llama3_scaling {
    double factor = 8;
    double low_frequency_factor = 1;
    double high_frequency_factor = 4;
    std::size_t original_positions = 8192;
  };

  /// The name of the architecture in llama.cpp: llama (also for Mistral), qwen2 or qwen3.
  std::string architecture = "llama";
  /// The name that programs show. If empty, the file's name without its ending.
  std::string name{};
  std::size_t context_length = 0;  ///< the largest number of tokens of a sequence
  std::size_t heads = 0;
  std::size_t key_value_heads = 0;  ///< 0: as many as heads
  std::size_t head_width = 0;       ///< 0: the width of the model divided by heads
  double norm_epsilon = 1e-5;
  double rope_base = 10000;
  std::optional<llama3_scaling> rope_scaling{};
  /// Numbers that the weights must agree with; 0: any.
  std::size_t layers = 0, width = 0, hidden = 0, vocabulary = 0;
  /// True if the head is the table of the embedding, so that the weights have no head. False if
  /// they must have one.
  std::optional<bool> ties_head{};
  /// The folder with tokenizer.json. If empty, the file has no tokenizer, and programs can give
  /// llama.cpp only the numbers of tokens.
  std::filesystem::path tokenizer{};

  /// Reads the config.json of a folder of Hugging Face, of the model_type llama, mistral, qwen2 or
  /// qwen3. If the folder has a tokenizer.json, `tokenizer` names the folder. If attention has a
  /// window, context_length is at most the window: up to it llama.cpp computes the same. As in
  /// check_config, a Llama has no window.
  ///
  /// Errors: input_error that names the file, if it cannot be read, lacks a number, or has another
  ///         model_type, activation or scaling of rotary frequencies than llama.cpp's architecture;
  ///         also for a field that check_config does not know, because it may change the model, and
  ///         for two different values of a number.
  ///
  /// Example (tests/checkpoint/save_gguf_test.cpp gguf_model):
  ///     auto const model = plait::gguf_model::read(base);
  [[nodiscard]] [[gnu::cold]] static gguf_model read(std::filesystem::path const& folder);
};

}  // namespace plait

namespace plait::detail {

/// A tensor of a GGUF file, and the name of the parameter that is stored in it.
struct gguf_parameter {
  std::string from;
  gguf_tensor tensor;
};

/// The tensors of a GGUF file that parameters are stored in, and the model's numbers.
struct gguf_layout {
  std::vector<gguf_parameter> parameters{};
  std::size_t layers = 0, width = 0, hidden = 0, vocabulary = 0, head_width = 0;
  std::size_t key_value_heads = 0;

  /// `tensors`: all parameters under the names of Hugging Face; `own_names`: the names of the same
  /// parameters in the model. Matrices are stored as `matrices`; of these, Q8_0 becomes F16 where
  /// 32 does not divide the length of a row.
  ///
  /// Errors: input_error for a name without a tensor in llama.cpp, a missing parameter, and a shape
  ///         or number that contradicts the model.
  [[gnu::cold]] gguf_layout(gguf_model const& model, std::span<safetensors_entry const> tensors,
                            std::span<std::string const> own_names, gguf_type matrices);
};

/// Returns the factors by which llama.cpp divides the rotary frequencies of a head.
[[nodiscard]] [[gnu::cold]] std::vector<float> rope_factors(gguf_model const& model,
                                                            std::size_t head_width);

/// Adds the numbers of a model to the metadata.
[[gnu::cold]] void add_model(gguf_model const& model, gguf_layout const& layout, gguf_type matrices,
                             gguf_metadata& to);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/gguf_model.ipp"
#endif
