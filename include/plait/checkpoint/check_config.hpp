// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "plait/core/file.hpp"
#include "plait/core/header_only.hpp"
#include "plait/io/model_config.hpp"

namespace plait::ext {

/// The result of check_config for a file that fits the program's model.
struct config_report {
  /// The names of the fields that do not change what a model computes, such as use_cache, in the
  /// order of the file.
  std::vector<std::string> harmless{};
  /// Sentences about fields that differ without changing what the model computes from a sequence,
  /// such as dropout, or a max_position_embeddings above the length of the program's sequences.
  std::vector<std::string> notes{};
  bool tie_word_embeddings = false;  ///< true: the output head uses the weights of the embedding
};

}  // namespace plait::ext

namespace plait::detail {

/// The largest size of a config.json in bytes. A config.json of transformers usually has a few
/// thousand bytes.
inline constexpr std::size_t most_config_bytes = std::size_t{1} << 20;

/// Compares the text of a config.json with the program's model, and returns the report of
/// check_config.
[[nodiscard]] [[gnu::cold]] ext::config_report compare_config(std::string const& text,
                                                              file_name const& file,
                                                              model_config const& of);

}  // namespace plait::detail

namespace plait {

/// Compares the config.json in a folder of Hugging Face's transformers with the program's model.
/// Weights of the same shapes belong to another model if, for example, rope_theta differs. Call it
/// before load_weights.
///
/// A field that is missing in the file has the default of its model_type in transformers 5.24.0:
/// llama, mistral, qwen2, qwen3, gemma3_text or gpt2. A file of another model_type must have the
/// sizes, rms_norm_eps, rope_theta, hidden_act, max_position_embeddings and tie_word_embeddings. If
/// a model_type implies a value and has no field for it, such as the biases of Qwen2's attention,
/// the value is not compared. A window that is at least as long as `sequence` is treated as no
/// window, and so is a sliding_window of a Llama, which transformers ignores.
///
/// Cost:    reads at most 1 MiB.
/// Errors:  input_error, one sentence that names every difference with both values, and every field
///          that plait does not know, because it may change the model; also if the file is missing,
///          is not JSON or has a field twice, and if a size in `of` is 0.
/// Threads: any. If ranks are processes, each reads the file that it sees.
///
/// Example (tests/checkpoint/check_config_test.cpp check_config):
///     auto const report = plait::check_config(folder, model);
///     for (auto const& note : report.notes) std::printf("%s\n", note.c_str());
[[gnu::cold]] ext::config_report check_config(std::filesystem::path const& folder,
                                              model_config const& of);

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/check_config.ipp"
#endif
