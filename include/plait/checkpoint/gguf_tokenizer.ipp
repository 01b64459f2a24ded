// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/checkpoint/gguf_tokenizer.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "plait/checkpoint/json_file.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail {

inline constexpr std::size_t most_tokenizer_bytes = 200'000'000, most_settings_bytes = 10'000'000;

/// The numbers of the kinds of tokens in GGUF.
enum class gguf_token : std::int32_t { normal = 1, control = 3, user_defined = 4, unused = 5 };

/// The rules that cut a text into words, as tokenizer.json writes them, and llama.cpp's names.
struct gguf_word_rule {
  std::string_view pre, pattern;
};
inline constexpr std::array gguf_word_rules{
    gguf_word_rule{"llama-bpe",
                   "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
                   "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
    gguf_word_rule{"qwen2",
                   "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
                   "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}};

/// A tokenizer.json, which is read part by part.
class tokenizer_reader {
 public:
  explicit tokenizer_reader(std::filesystem::path const& folder)
      : folder_(folder), file_(folder / "tokenizer.json", "tokenizer", most_tokenizer_bytes) {
    if (has("tokenizer_config.json"))
      config_.emplace(folder / "tokenizer_config.json", "tokenizer config", most_settings_bytes);
    model_ = object_of("model");
    if (model_ == nullptr) file_.name().refuse("has no model");
    if (auto const type = text_in(*model_, "type"); type != "BPE")
      file_.name().refuse(concat({"has a model of the type ", in_quotes(type), rejected}));
    if (is_true(*model_, "byte_fallback"))
      file_.name().refuse(concat({"has BPE with byte_fallback", rejected}));
  }

  void add_to(gguf_metadata& to, std::size_t vocabulary, std::string pre) const {
    to.add("tokenizer.ggml.model", std::string_view("gpt2"));
    to.add("tokenizer.ggml.pre", std::string_view(pre.empty() ? word_rule() : pre));
    add_tokens(to, vocabulary);
    add_merges(to);
    add_special(to, vocabulary);
    add_template(to);
  }

 private:
  static constexpr char const* rejected =
      ", but save_gguf copies only byte-level BPE, as of GPT-2, Llama 3 and Qwen; leave "
      "gguf_model::tokenizer empty";

  [[nodiscard]] bool has(char const* name) const {
    std::error_code problem;
    return std::filesystem::exists(folder_ / name, problem);
  }
  [[nodiscard]] json_object const* object_of(char const* key) const {
    auto const* const value = file_.find(key);
    return value == nullptr ? nullptr : object_in(*value);
  }
  [[nodiscard]] std::string text_in(json_object const& in, char const* key) const {
    auto const* const value = file_.find_in(in, key);
    std::string out;
    if (value != nullptr) (void)take(*value, out);
    return out;
  }
  [[nodiscard]] bool is_true(json_object const& in, char const* key, bool otherwise = false) const {
    auto const* const value = file_.find_in(in, key);
    return value != nullptr && value->is_boolean() ? value->get<bool>() : otherwise;
  }

  /// Returns llama.cpp's name of the rule that cuts a text into words.
  [[nodiscard]] std::string word_rule() const {
    auto const* const pre = object_of("pre_tokenizer");
    std::vector<json_object const*> parts;
    if (pre != nullptr) {
      auto const* const several = file_.find_in(*pre, "pretokenizers");
      auto const* const list = several == nullptr ? nullptr : list_in(*several);
      if (list == nullptr) parts.push_back(pre);
      else
        for (auto const& part : *list)
          if (auto const* const object = object_in(part)) parts.push_back(object);
    }
    bool const ends_in_bytes = !parts.empty() && text_in(*parts.back(), "type") == "ByteLevel";
    bool const cuts = ends_in_bytes && is_true(*parts.back(), "use_regex", true);
    if (parts.size() == 1 && cuts) return "gpt-2";
    if (parts.size() == 2 && ends_in_bytes && !cuts && text_in(*parts[0], "type") == "Split") {
      auto const* const pattern = file_.find_in(*parts[0], "pattern");
      auto const* const object = pattern == nullptr ? nullptr : object_in(*pattern);
      auto const regex = object == nullptr ? std::string() : text_in(*object, "Regex");
      for (auto const& rule : gguf_word_rules)
        // llama-bpe takes a word that is a token without merging it.
        if (regex == rule.pattern && is_true(*model_, "ignore_merges") == (rule.pre == "llama-bpe"))
          return std::string(rule.pre);
    }
    file_.name().refuse(
        "cuts texts into words by a rule whose name in llama.cpp save_gguf does not know; set "
        "save_gguf_options::pre to the value that llama.cpp's converter writes as "
        "tokenizer.ggml.pre, or leave gguf_model::tokenizer empty");
  }

  /// Sets a token of the vocabulary.
  void set(std::vector<std::optional<std::string>>& tokens, json_value const& number,
           std::string const& token) const {
    std::uint64_t at = 0;
    if (!take(number, at))
      file_.name().refuse(concat({"has no number for the token ", in_quotes(token)}));
    if (at >= tokens.size())
      file_.name().refuse(concat({"has the token ", in_quotes(token), " of number ", at,
                                  ", but the weights have ", tokens.size(), " tokens"}));
    if (tokens[at] && *tokens[at] != token)
      file_.name().refuse(concat({"has two tokens of number ", at, ", ", in_quotes(*tokens[at]),
                                  " and ", in_quotes(token)}));
    tokens[at] = token;
  }

  void add_tokens(gguf_metadata& to, std::size_t vocabulary) const {
    std::vector<std::optional<std::string>> found(vocabulary);
    std::vector<std::int32_t> kinds(vocabulary, std::int32_t(gguf_token::normal));
    auto const* const vocab = file_.find_in(*model_, "vocab");
    auto const* const tokens = vocab == nullptr ? nullptr : object_in(*vocab);
    if (tokens == nullptr) file_.name().refuse("has a model without a vocab");
    for (auto const& [token, number] : *tokens) set(found, number, token);
    for_each_added([&](json_object const& added, std::string const& token) {
      auto const* const number = file_.find_in(added, "id");
      set(found, number == nullptr ? json_value() : *number, token);
      bool const is_control = is_true(added, "special") || looks_special(token);
      kinds[number->get<std::size_t>()] =
          std::int32_t(is_control ? gguf_token::control : gguf_token::user_defined);
    });
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < vocabulary; ++i) {
      if (!found[i]) kinds[i] = std::int32_t(gguf_token::unused);
      texts.push_back(found[i] ? *std::move(found[i]) : concat({"[PAD", i, "]"}));
    }
    to.add("tokenizer.ggml.tokens", std::span<std::string const>(texts));
    to.add("tokenizer.ggml.token_type", std::span<std::int32_t const>(kinds));
  }

  template <class Body>
  void for_each_added(Body body) const {
    auto const* const value = file_.find("added_tokens");
    auto const* const list = value == nullptr ? nullptr : list_in(*value);
    if (list == nullptr) return;
    for (auto const& one : *list) {
      auto const* const added = object_in(one);
      if (added == nullptr) file_.name().refuse("has an added token that is not an object");
      body(*added, text_in(*added, "content"));
    }
  }

  /// Returns true for a token that some models do not declare special, although it is. The
  /// converter of llama.cpp has these rules.
  static bool looks_special(std::string_view token) {
    auto const is_between = [&](std::string_view begin, std::string_view end) {
      return token.starts_with(begin) && token.ends_with(end);
    };
    return token == "<pad>" || token == "<mask>" || token == "<2mass>" || token == "[@BOS@]" ||
           is_between("<|", "|>") || is_between("<\uff5c", "\uff5c>") || is_between("<unused", ">");
  }

  void add_merges(gguf_metadata& to) const {
    auto const* const value = file_.find_in(*model_, "merges");
    auto const* const list = value == nullptr ? nullptr : list_in(*value);
    if (list == nullptr) file_.name().refuse("has a model without a list of merges");
    std::vector<std::string> merges;
    for (auto const& one : *list) {
      std::string text;
      if (!take(one, text)) {
        auto const* const pair = list_in(one);
        std::string first, second;
        if (pair == nullptr || pair->size() != 2 || !take((*pair)[0], first) ||
            !take((*pair)[1], second))
          file_.name().refuse(concat({"has a merge that needs two texts, number ", merges.size()}));
        text = concat({without_spaces(first), " ", without_spaces(second)});
      }
      merges.push_back(std::move(text));
    }
    to.add("tokenizer.ggml.merges", std::span<std::string const>(merges));
  }
  /// Writes a space as byte-level BPE does, since in a merge a space separates the two texts.
  static std::string without_spaces(std::string const& text) {
    std::string out;
    for (char const each : text)
      if (each == ' ') out += "\u0120";
      else out += each;
    return out;
  }

  /// Adds the numbers of the tokens for the begin and end of a text and other uses, and whether the
  /// tokenizer adds begin and end to a text. tokenizer_config.json says both; without it, the
  /// template of tokenizer.json. A number may also be in config.json.
  void add_special(gguf_metadata& to, std::size_t vocabulary) const {
    struct use {
      std::string name, key, in_template;
    };
    auto const [first, last] = template_ends();
    std::array<use, 5> const uses{{{"bos", "bos", first},
                                   {"eos", "eos", last},
                                   {"unk", "unknown", ""},
                                   {"sep", "seperator", ""},  // as llama.cpp spells it
                                   {"pad", "padding", ""}}};
    std::optional<json_file> of_model;
    if (has("config.json"))
      of_model.emplace(folder_ / "config.json", "config", most_settings_bytes);
    std::map<std::string, std::uint64_t, std::less<>> numbers;
    for_each_added([&](json_object const& added, std::string const& token) {
      numbers.emplace(token, file_.find_in(added, "id")->get<std::uint64_t>());
    });
    for (auto const& [name, key, in_template] : uses) {
      auto const token = config_ ? config_text(concat({name, "_token"})) : in_template;
      std::optional<std::uint64_t> number;
      if (auto const found = numbers.find(token); found != numbers.end()) number = found->second;
      if (!number && of_model) {
        auto const* const value = of_model->find(concat({name, "_token_id"}));
        std::uint64_t given = 0;
        if (value != nullptr && take(*value, given) && given < vocabulary) number = given;
      }
      if (number) to.add(concat({"tokenizer.ggml.", key, "_token_id"}), std::uint32_t(*number));
      if (key != "bos" && key != "eos") continue;
      auto const* const flag = config_ ? config_->find(concat({"add_", name, "_token"})) : nullptr;
      bool const is_flag = flag != nullptr && flag->is_boolean();
      if (is_flag || !in_template.empty())
        to.add(concat({"tokenizer.ggml.add_", name, "_token"}),
               is_flag ? flag->get<bool>() : in_template == token);
    }
  }

  /// Returns a text of tokenizer_config.json, or the `content` of an object in its place; empty if
  /// there is none.
  [[nodiscard]] std::string config_text(std::string const& key) const {
    auto const* const value = config_ ? config_->find(key) : nullptr;
    std::string out;
    if (value == nullptr || take(*value, out)) return out;
    if (auto const* const object = object_in(*value))
      if (auto const* const content = config_->find_in(*object, "content"))
        (void)take(*content, out);
    return out;
  }

  /// Returns the special tokens that the post-processor puts at the begin and end of a text.
  [[nodiscard]] std::pair<std::string, std::string> template_ends() const {
    auto const* const all = object_of("post_processor");
    if (all == nullptr) return {};
    std::vector<json_object const*> parts{all};
    auto const* const several = file_.find_in(*all, "processors");
    if (auto const* const list = several == nullptr ? nullptr : list_in(*several))
      for (auto const& part : *list)
        if (auto const* const object = object_in(part)) parts.push_back(object);
    for (auto const* const part : parts) {
      if (text_in(*part, "type") != "TemplateProcessing") continue;
      auto const* const value = file_.find_in(*part, "single");
      auto const* const single = value == nullptr ? nullptr : list_in(*value);
      if (single == nullptr || single->size() < 2) continue;
      return {special_in(single->front()), special_in(single->back())};
    }
    return {};
  }
  [[nodiscard]] std::string special_in(json_value const& piece) const {
    auto const* const object = object_in(piece);
    auto const* const special =
        object == nullptr ? nullptr : file_.find_in(*object, "SpecialToken");
    auto const* const of = special == nullptr ? nullptr : object_in(*special);
    return of == nullptr ? std::string() : text_in(*of, "id");
  }

  void add_template(gguf_metadata& to) const {
    std::string text = config_text("chat_template");
    if (text.empty() && has("chat_template.jinja")) {
      open_file const file((folder_ / "chat_template.jinja").string(), "chat template");
      if (file.size() > most_settings_bytes)
        file.name().refuse(
            concat({"has ", file.size(), " bytes; at most ", most_settings_bytes, " are allowed"}));
      text.resize(file.size());
      file.read(std::as_writable_bytes(std::span(text)), 0);
    }
    if (!text.empty()) to.add("tokenizer.chat_template", std::string_view(text));
  }

  std::filesystem::path folder_;
  json_file file_;
  std::optional<json_file> config_{};
  json_object const* model_ = nullptr;
};

PLAIT_DECL void add_tokenizer(std::filesystem::path const& folder, std::size_t vocabulary,
                              std::string pre, gguf_metadata& to) {
  tokenizer_reader(folder).add_to(to, vocabulary, std::move(pre));
}

}  // namespace plait::detail
