// SPDX-License-Identifier: Apache-2.0
// test: libs=checkpoint
#include "plait/checkpoint/gguf_tokenizer.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/gguf_reader.hpp"
#include "checkpoint/llama_weights.hpp"

namespace {

using llama_weights::refusal;
namespace files = std::filesystem;
using words = std::vector<std::string>;

files::path scratch(std::string const& name) {
  return llama_weights::scratch("gguf_tokenizer_" + name, ::testing::TempDir());
}

/// Returns the metadata that the tokenizer of a folder gives, read back from a file.
gguf_test::file copied(files::path const& folder, std::size_t vocabulary,
                       std::string const& pre = "") {
  plait::detail::gguf_metadata metadata;
  plait::detail::add_tokenizer(folder, vocabulary, pre, metadata);
  auto const file = folder / "out.gguf";
  plait::ext::gguf_writer(file.string(), metadata, {}, true).commit();
  return gguf_test::read(file);
}

// Backslashes of the pattern are doubled, as in JSON.
std::string words_of_llama3(std::string const& digits) {
  return R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex":
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N})" +
         digits + R"(| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
      "behavior": "Isolated", "invert": false}, {"type": "ByteLevel", "use_regex": false}]})";
}

std::string llama3(std::string const& pre_tokenizer, std::string const& model) {
  return R"({"version": "1.0", "added_tokens": [
      {"id": 6, "content": "<|begin_of_text|>", "special": true},
      {"id": 7, "content": "<|eot_id|>", "special": false},
      {"id": 8, "content": "<think>", "special": false}],
      "pre_tokenizer": )" +
         pre_tokenizer + R"(, "post_processor": {"type": "Sequence", "processors": [
      {"type": "ByteLevel"}, {"type": "TemplateProcessing", "single": [
      {"SpecialToken": {"id": "<|begin_of_text|>"}}, {"Sequence": {"id": "A"}}]}]},
      "model": )" +
         model + "}";
}
std::string const bpe =
    R"({"type": "BPE", "ignore_merges": true, "byte_fallback": false,
        "vocab": {"a": 0, "b": 1, "Ġ": 2, "ab": 3, "Ġa": 4, "\u00e9": 5},
        "merges": [["a", "b"], ["Ġ", "a"], [" ", "b"]]})";

TEST(GgufTokenizer, OfLlama3) {
  auto const folder = scratch("llama3");
  llama_weights::write(folder / "tokenizer.json", llama3(words_of_llama3("{1,3}"), bpe));
  auto const found = copied(folder, 11);
  EXPECT_EQ(found.texts.at("tokenizer.ggml.model"), "gpt2");
  EXPECT_EQ(found.texts.at("tokenizer.ggml.pre"), "llama-bpe");
  EXPECT_EQ(found.text_lists.at("tokenizer.ggml.tokens"),
            (words{"a", "b", "Ġ", "ab", "Ġa", "é", "<|begin_of_text|>", "<|eot_id|>", "<think>",
                   "[PAD9]", "[PAD10]"}));
  EXPECT_EQ(found.number_lists.at("tokenizer.ggml.token_type"),
            (std::vector<std::int32_t>{1, 1, 1, 1, 1, 1, 3, 3, 4, 5, 5}));
  EXPECT_EQ(found.text_lists.at("tokenizer.ggml.merges"), (words{"a b", "Ġ a", "Ġ b"}));
  EXPECT_EQ(found.numbers, (std::map<std::string, double>{{"tokenizer.ggml.bos_token_id", 6},
                                                          {"tokenizer.ggml.add_bos_token", 1}}));

  llama_weights::write(folder / "tokenizer_config.json",
                       R"({"bos_token": {"content": "<|begin_of_text|>"}, "eos_token": "<|eot_id|>",
                           "chat_template": "{{ messages }}"})");
  llama_weights::write(folder / "config.json",
                       R"({"bos_token_id": 3, "pad_token_id": 8, "eos_token_id": [6, 7]})");
  auto const more = copied(folder, 11);
  EXPECT_EQ(more.numbers, (std::map<std::string, double>{{"tokenizer.ggml.bos_token_id", 6},
                                                         {"tokenizer.ggml.eos_token_id", 7},
                                                         {"tokenizer.ggml.padding_token_id", 8},
                                                         {"tokenizer.ggml.add_bos_token", 1}}));
  EXPECT_EQ(more.texts.at("tokenizer.chat_template"), "{{ messages }}");
  llama_weights::write(folder / "tokenizer_config.json",
                       R"({"bos_token": "<|begin_of_text|>", "add_bos_token": false})");
  llama_weights::write(folder / "chat_template.jinja", "{% of a file %}");
  auto const last = copied(folder, 11);
  EXPECT_EQ(last.numbers.at("tokenizer.ggml.add_bos_token"), 0);
  EXPECT_EQ(last.texts.at("tokenizer.chat_template"), "{% of a file %}");
  files::remove_all(folder);
}

TEST(GgufTokenizer, OfQwen2AndOfGpt2) {
  auto const folder = scratch("others");
  std::string const plain =
      R"({"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]})";
  llama_weights::write(folder / "tokenizer.json", llama3(words_of_llama3(""), plain));
  auto const qwen2 = copied(folder, 9);
  EXPECT_EQ(qwen2.texts.at("tokenizer.ggml.pre"), "qwen2");
  EXPECT_EQ(qwen2.text_lists.at("tokenizer.ggml.merges"), words{"a b"});
  llama_weights::write(
      folder / "tokenizer.json",
      R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "model": )" + plain +
          "}");
  EXPECT_EQ(copied(folder, 3).texts.at("tokenizer.ggml.pre"), "gpt-2");
  EXPECT_EQ(copied(folder, 3, "mine").texts.at("tokenizer.ggml.pre"), "mine");
  files::remove_all(folder);
}

TEST(GgufTokenizer, RefusesWhatItCannotCopy) {
  auto const folder = scratch("refused");
  auto const name = "tokenizer '" + (folder / "tokenizer.json").string() + "' ";
  auto const refused = [&](std::string const& text, std::string const& says) {
    llama_weights::write(folder / "tokenizer.json", text);
    EXPECT_EQ(refusal([&] { (void)copied(folder, 9); }), name + says);
  };
  std::string const only =
      ", but save_gguf copies only byte-level BPE, as of GPT-2, Llama 3 and "
      "Qwen; leave gguf_model::tokenizer empty";
  std::string const rule =
      "cuts texts into words by a rule whose name in llama.cpp save_gguf does not know; set "
      "save_gguf_options::pre to the value that llama.cpp's converter writes as "
      "tokenizer.ggml.pre, or leave gguf_model::tokenizer empty";
  refused("{}", "has no model");
  refused("{\"model\": 3}", "has no model");
  refused(R"({"model": {"type": "Unigram"}})", "has a model of the type 'Unigram'" + only);
  refused(R"({"model": {"type": "BPE", "byte_fallback": true}})",
          "has BPE with byte_fallback" + only);
  refused(R"({"model": {"type": "BPE"}})", rule);
  refused(llama3(words_of_llama3("{1,4}"), bpe), rule);
  // This rule is llama-bpe only together with ignore_merges.
  refused(llama3(words_of_llama3("{1,3}"), R"({"type": "BPE"})"), rule);
  auto const with = [&](std::string const& model) {
    return llama3(words_of_llama3("{1,3}"), R"({"type": "BPE", "ignore_merges": true, )" + model);
  };
  refused(with(R"("merges": []})"), "has a model without a vocab");
  refused(with(R"("vocab": {"a": "b"}})"), "has no number for the token 'a'");
  refused(with(R"("vocab": {"a": 9}})"),
          "has the token 'a' of number 9, but the weights have 9 tokens");
  refused(with(R"("vocab": {"a": 1, "b": 1}})"), "has two tokens of number 1, 'a' and 'b'");
  refused(with(R"("vocab": {"a": 7}})"), "has two tokens of number 7, 'a' and '<|eot_id|>'");
  refused(with(R"("vocab": {"a": 1}})"), "has a model without a list of merges");
  refused(with(R"("vocab": {"a": 1}, "merges": ["a b", ["a"]]})"),
          "has a merge that needs two texts, number 1");
  refused(R"({"model": {"type": "BPE", "vocab": {}, "merges": []},
             "pre_tokenizer": {"type": "ByteLevel"}, "added_tokens": [3]})",
          "has an added token that is not an object");
  refused(R"({"model": {"type": "BPE", "vocab": {}, "merges": []},
             "pre_tokenizer": {"type": "ByteLevel"}, "added_tokens": [{"content": "x"}]})",
          "has no number for the token 'x'");
  files::remove(folder / "tokenizer.json");
  EXPECT_EQ(refusal([&] { (void)copied(folder, 9); }),
            name + "cannot be read: No such file or directory");
  files::remove_all(folder);
}

}  // namespace
