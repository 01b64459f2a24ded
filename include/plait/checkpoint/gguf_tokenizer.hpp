// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "plait/checkpoint/gguf_file.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// Copies a tokenizer into the metadata of a GGUF file: tokens and their types, merges, special
/// tokens, and the chat template. It reads tokenizer.json of a folder of Hugging Face, and
/// tokenizer_config.json, config.json and chat_template.jinja if they exist. The tokenizer must be
/// BPE on bytes, as GPT-2, Llama 3 and Qwen have it; llama.cpp calls it gpt2.
///
/// `vocabulary`: the number of tokens of the model; numbers without a token get an unused one.
/// `pre`: llama.cpp's name of the rule that cuts a text into words. If empty, it is found by the
/// rule in tokenizer.json: gpt-2, llama-bpe or qwen2.
///
/// Cost:   about 10 times the memory of tokenizer.json.
/// Errors: input_error that names the file, if it cannot be read or holds another tokenizer, a rule
///         for words without a known name, or a token beyond the vocabulary.
[[gnu::cold]] void add_tokenizer(std::filesystem::path const& folder, std::size_t vocabulary,
                                 std::string pre, gguf_metadata& to);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/gguf_tokenizer.ipp"
#endif
