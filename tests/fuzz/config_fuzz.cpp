// SPDX-License-Identifier: Apache-2.0
// Any bytes as the config.json of a folder of weights.
#include <cstdint>
#include <string>

#include "fuzz/fuzzing.hpp"
#include "plait/checkpoint/check_config.hpp"

int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string const text(reinterpret_cast<char const*>(data), size);
  plait::model_config model{.model_type = {"llama", "mistral", "qwen2", "gemma3_text", "gpt2"},
                            .vocab_size = 256,
                            .hidden_size = 64,
                            .intermediate_size = 128,
                            .num_hidden_layers = 2,
                            .num_attention_heads = 4,
                            .num_key_value_heads = 2,
                            .tie_word_embeddings = {},
                            .sequence = 64};
  auto const fits = [&] {
    return fuzzing::accepts([&] {
      auto const report = plait::detail::compare_config(
          text, plait::detail::file_name("configuration", "c"), model);
      for (auto const& note : report.notes) fuzzing::expect_message(note);
    });
  };
  if (!fits()) return 0;
  // A file that fits this model fits no other one.
  model.rms_norm_eps *= 2;
  fuzzing::expect(!fits(), "another epsilon makes no difference");
  model.rms_norm_eps /= 2;
  model.num_hidden_layers = 3;
  fuzzing::expect(!fits(), "another number of layers makes no difference");
  return 0;
}
