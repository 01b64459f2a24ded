// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/checkpoint/gguf_model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <system_error>

#include "plait/checkpoint/check_config.hpp"
#include "plait/checkpoint/compare_config.hpp"
#include "plait/checkpoint/config_fields.hpp"
#include "plait/checkpoint/json_file.hpp"
#include "plait/checkpoint/load_weights.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/quote.hpp"
#include "plait/io/block.hpp"
#include "plait/train/training_settings.hpp"

namespace plait::detail {

/// Numbers of config.json, which errors name by the file and the key.
struct config_reader {
  json_file const& file;
  json_value const* defaults = nullptr;  ///< the defaults of the model type in transformers

  /// Returns a number of the object, or `otherwise` if it has none.
  [[nodiscard]] double number(json_object const& in, char const* key, double otherwise) const {
    auto const* const value = file.find_in(in, key);
    if (value == nullptr) return otherwise;
    double const out = value->is_number() ? value->get<double>() : 0;
    if (!(out > 0) || !std::isfinite(static_cast<float>(out)))
      file.name().refuse(concat({"needs a number above 0 as ", key, ", and has ", value->dump()}));
    return out;
  }
  [[nodiscard]] std::size_t count(char const* key) const {
    auto const* const value = file.find(key);
    if (value == nullptr) file.name().refuse(concat({"lacks ", key}));
    return count(key, *value);
  }
  [[nodiscard]] std::size_t count(char const* key, json_value const& value) const {
    std::uint64_t out = 0;
    if (!take(value, out) || out == 0 || out > std::numeric_limits<std::int32_t>::max())
      file.name().refuse(
          concat({"needs an integer from 1 to 2147483647 as ", key, ", and has ", value.dump()}));
    return out;
  }
  /// Returns a number of the file or, if the field is missing, its default in transformers. Returns
  /// 0 if the number is null.
  [[nodiscard]] std::size_t count_or_default(char const* key) const {
    auto const* value = member_of(file.object(), key, file.name());
    if (value == nullptr) value = member_of(defaults, key);
    return value == nullptr || value->is_null() ? 0 : count(key, *value);
  }
  [[nodiscard]] std::string text(json_object const& in, char const* key,
                                 std::string const& otherwise) const {
    auto const* const value = file.find_in(in, key);
    std::string out = otherwise;
    if (value != nullptr && !take(*value, out))
      file.name().refuse(concat({"needs a text as ", key, ", and has ", value->dump()}));
    return out;
  }
};

// Reads rope_theta and the scaling, which transformers 5 has in one object and others in two.
PLAIT_DECL void read_rope(config_reader const& from, gguf_model& to) {
  auto const& file = from.file;
  to.rope_base = from.number(file.object(), "rope_theta", 10000);
  auto const* found = file.find("rope_parameters");
  if (found == nullptr) found = file.find("rope_scaling");
  if (found == nullptr) return;
  auto const* const rope = object_in(*found);
  if (rope == nullptr) file.name().refuse("needs an object as rope_parameters or rope_scaling");
  to.rope_base = from.number(*rope, "rope_theta", to.rope_base);
  auto const type = from.text(*rope, "rope_type", from.text(*rope, "type", "default"));
  if (type == "default") return;
  if (type != "llama3")
    file.name().refuse(
        concat({"has the rope_type ", in_quotes(type), "; save_gguf writes default and llama3"}));
  gguf_model::llama3_scaling scaling;
  scaling.factor = from.number(*rope, "factor", scaling.factor);
  scaling.low_frequency_factor =
      from.number(*rope, "low_freq_factor", scaling.low_frequency_factor);
  scaling.high_frequency_factor =
      from.number(*rope, "high_freq_factor", scaling.high_frequency_factor);
  scaling.original_positions = static_cast<std::size_t>(
      from.number(*rope, "original_max_position_embeddings", double(scaling.original_positions)));
  to.rope_scaling = scaling;
}

/// Refuses a config.json of a model that llama.cpp does not compute, by the rules of check_config.
/// `of`: the numbers that were read from the file.
PLAIT_DECL void check_file(config_reader const& from, std::string const& model_type,
                           gguf_model const& of) {
  auto const& file = from.file;
  if (of.head_width == 0 && of.width % of.heads != 0)
    file.name().refuse(
        concat({"has the hidden_size ", of.width, ", which is not a multiple of its ",
                "num_attention_heads ", of.heads}));
  if (of.heads % of.key_value_heads != 0)
    file.name().refuse(
        concat({"has num_attention_heads ", of.heads,
                ", which is not a multiple of its num_key_value_heads ", of.key_value_heads}));
  // llama.cpp adds the biases of a Llama that the weights have.
  auto const has_bias = [&](char const* key) {
    auto const* const value = file.find(key);
    return of.architecture == "llama" && value != nullptr && *value == json_value(true);
  };
  model_config model;
  model.model_type = {model_type};
  model.vocab_size = of.vocabulary;
  model.hidden_size = of.width;
  model.intermediate_size = of.hidden;
  model.num_hidden_layers = of.layers;
  model.num_attention_heads = of.heads;
  model.num_key_value_heads = of.key_value_heads;
  model.head_dim = of.head_width;
  model.rms_norm_eps = of.norm_epsilon;
  model.rope_theta = of.rope_base;
  model.attention_bias = has_bias("attention_bias");
  model.mlp_bias = has_bias("mlp_bias");
  model.tie_word_embeddings = {};
  model.sequence = of.context_length;
  if (of.rope_scaling)
    model.rope_scaling = {.rope_type = "llama3",
                          .factor = of.rope_scaling->factor,
                          .low_freq_factor = of.rope_scaling->low_frequency_factor,
                          .high_freq_factor = of.rope_scaling->high_frequency_factor,
                          .original_max_position_embeddings = of.rope_scaling->original_positions};
  compared_model const words{
      .name = "the GGUF file",
      .problem = "cannot become a GGUF file",
      .if_different = "llama.cpp computes no other model; correct config.json if it is wrong",
      .if_unknown_one = "remove it from config.json if the model does not use it",
      .if_unknown_more = "remove them from config.json if the model does not use them"};
  (void)compare_config(file.value(), file.name(), model, words);
}

}  // namespace plait::detail

namespace plait {

PLAIT_DECL gguf_model gguf_model::read(std::filesystem::path const& folder) {
  detail::json_file const file(folder / "config.json", "config", detail::most_config_bytes);
  auto const known = detail::json_value::parse(detail::config_fields());
  detail::config_reader from{file};
  auto const& all = file.object();
  gguf_model out;
  auto const type = from.text(all, "model_type", "");
  if (type != "llama" && type != "mistral" && type != "qwen2" && type != "qwen3")
    file.name().refuse(ext::concat({"has the model_type ", detail::in_quotes(type),
                                    "; save_gguf writes llama, mistral, qwen2 and qwen3"}));
  from.defaults = detail::member_of(detail::member_of(&known, "defaults"), type);
  if (type != "mistral") out.architecture = type;
  auto const named = folder.has_filename() ? folder : folder.parent_path();
  out.name = named.filename().string();
  out.context_length = from.count("max_position_embeddings");
  if (auto const window = detail::window_in(file.value(), from.defaults); !window.is_null())
    out.context_length = std::min(out.context_length, from.count("sliding_window", window));
  out.layers = from.count("num_hidden_layers");
  out.width = from.count("hidden_size");
  out.hidden = from.count("intermediate_size");
  out.vocabulary = from.count("vocab_size");
  out.heads = from.count("num_attention_heads");
  out.key_value_heads = from.count_or_default("num_key_value_heads");
  if (out.key_value_heads == 0) out.key_value_heads = out.heads;
  out.head_width = from.count_or_default("head_dim");
  out.norm_epsilon = from.number(all, "rms_norm_eps", 1e-6);
  detail::read_rope(from, out);
  if (auto const* const ties = file.find("tie_word_embeddings");
      ties != nullptr && ties->is_boolean())
    out.ties_head = ties->get<bool>();
  detail::check_file(from, type, out);
  if (std::error_code problem; std::filesystem::exists(folder / "tokenizer.json", problem))
    out.tokenizer = folder;
  return out;
}

}  // namespace plait

namespace plait::detail {

enum class gguf_length : int { one, width, queries, keys, hidden, head, vocabulary };

/// A parameter of a block, or of the whole model if `from` begins with "model." or "lm_head".
struct gguf_part {
  std::string_view from, to;
  gguf_length rows, columns = gguf_length::one;
};

inline constexpr std::array gguf_whole_parts{
    gguf_part{"model.embed_tokens", "token_embd", gguf_length::vocabulary, gguf_length::width},
    gguf_part{"model.norm", "output_norm", gguf_length::width},
    gguf_part{"lm_head", "output", gguf_length::vocabulary, gguf_length::width}};
inline constexpr std::array gguf_block_parts{
    gguf_part{"input_layernorm", "attn_norm", gguf_length::width},
    gguf_part{"self_attn.q_proj", "attn_q", gguf_length::queries, gguf_length::width},
    gguf_part{"self_attn.k_proj", "attn_k", gguf_length::keys, gguf_length::width},
    gguf_part{"self_attn.v_proj", "attn_v", gguf_length::keys, gguf_length::width},
    gguf_part{"self_attn.o_proj", "attn_output", gguf_length::width, gguf_length::queries},
    gguf_part{"post_attention_layernorm", "ffn_norm", gguf_length::width},
    gguf_part{"mlp.gate_proj", "ffn_gate", gguf_length::hidden, gguf_length::width},
    gguf_part{"mlp.up_proj", "ffn_up", gguf_length::hidden, gguf_length::width},
    gguf_part{"mlp.down_proj", "ffn_down", gguf_length::width, gguf_length::hidden},
    gguf_part{"self_attn.q_norm", "attn_q_norm", gguf_length::head},
    gguf_part{"self_attn.k_norm", "attn_k_norm", gguf_length::head}};

/// The need of an architecture of llama.cpp for a parameter.
enum class gguf_presence : int { ignored, optional, required };

PLAIT_DECL gguf_presence presence_of(std::string const& architecture, gguf_part const& part,
                                     bool is_bias) {
  using enum gguf_presence;
  bool const is_matrix = part.columns != gguf_length::one;
  if (!is_bias) {
    if (part.to == "output") return optional;
    if (part.rows == gguf_length::head) return architecture == "qwen3" ? required : ignored;
    return required;
  }
  if (!is_matrix || part.rows == gguf_length::vocabulary) return ignored;
  if (architecture == "llama") return optional;
  bool const has_bias = part.to == "attn_q" || part.to == "attn_k" || part.to == "attn_v";
  return architecture == "qwen2" && has_bias ? required : ignored;
}

/// A parameter that llama.cpp has a name for.
struct gguf_match {
  gguf_part const* part = nullptr;
  bool is_bias = false;
  std::optional<std::size_t> block{};

  [[nodiscard]] std::string name() const {
    auto const end = is_bias ? ".bias" : ".weight";
    return block ? concat({"blk.", *block, ".", part->to, end}) : concat({part->to, end});
  }
};

/// Finds a name of Hugging Face; `part` is null if llama.cpp has no name for it.
PLAIT_DECL gguf_match match_of(std::string_view name) {
  gguf_match out;
  out.is_bias = name.ends_with(".bias");
  if (!out.is_bias && !name.ends_with(".weight")) return {};
  name.remove_suffix(out.is_bias ? 5 : 7);
  constexpr std::string_view layers = "model.layers.";
  if (name.starts_with(layers)) {
    name.remove_prefix(layers.size());
    auto const end = name.find('.');
    auto const digits = name.substr(0, end);
    if (end == name.npos || digits.empty() || digits.size() > 6 ||
        digits.find_first_not_of("0123456789") != digits.npos ||
        (digits.size() > 1 && digits[0] == '0'))
      return {};
    std::size_t number = 0;
    for (char const digit : digits) number = 10 * number + std::size_t(digit - '0');
    out.block = number;
    name.remove_prefix(end + 1);
    for (auto const& part : gguf_block_parts)
      if (part.from == name) out.part = &part;
  } else {
    for (auto const& part : gguf_whole_parts)
      if (part.from == name) out.part = &part;
  }
  return out;
}

PLAIT_DECL std::size_t needed_count(char const* what, std::size_t value) {
  if (value == 0 || value > std::numeric_limits<std::int32_t>::max())
    throw input_error({"save_gguf: gguf_model::", what, " is ", value,
                       "; it needs a number from 1 to 2147483647"});
  return value;
}
PLAIT_DECL void check_number(char const* what, double value) {
  if (!(value > 0) || !std::isfinite(static_cast<float>(value)))
    throw input_error({"save_gguf: gguf_model::", what, " is ", number_text(value),
                       "; it needs a finite number above 0"});
}

/// Checks the numbers of a model that do not depend on its weights.
PLAIT_DECL void check_model(gguf_model const& model) {
  if (model.architecture != "llama" && model.architecture != "qwen2" &&
      model.architecture != "qwen3")
    throw input_error({"save_gguf: gguf_model::architecture is ", in_quotes(model.architecture),
                       "; save_gguf writes llama (also for Mistral), qwen2 and qwen3"});
  needed_count("context_length", model.context_length);
  needed_count("heads", model.heads);
  check_number("norm_epsilon", model.norm_epsilon);
  check_number("rope_base", model.rope_base);
  if (!model.rope_scaling) return;
  auto const& scaling = *model.rope_scaling;
  check_number("rope_scaling.factor", scaling.factor);
  check_number("rope_scaling.low_frequency_factor", scaling.low_frequency_factor);
  needed_count("rope_scaling.original_positions", scaling.original_positions);
  if (!(scaling.high_frequency_factor > scaling.low_frequency_factor))
    throw input_error({"save_gguf: gguf_model::rope_scaling.high_frequency_factor is ",
                       number_text(scaling.high_frequency_factor),
                       "; it must be above low_frequency_factor, ",
                       number_text(scaling.low_frequency_factor)});
}

/// Returns a number that follows from the weights, after a check that the model gives the same
/// number or none.
PLAIT_DECL std::size_t agreed(char const* what, std::size_t of_model, std::size_t of_weights) {
  if (of_model != 0 && of_model != of_weights)
    throw input_error(
        {"save_gguf: gguf_model::", what, " is ", of_model, ", but the weights have ", of_weights});
  return needed_count(what, of_weights);
}

PLAIT_DECL gguf_layout::gguf_layout(gguf_model const& model,
                                    std::span<safetensors_entry const> tensors,
                                    std::span<std::string const> own_names, gguf_type matrices) {
  check_model(model);
  std::map<std::string, std::size_t> numbers;  // the number of each tensor by llama.cpp's name
  std::vector<gguf_match> matches;
  auto const text_of = [&](std::size_t number) {
    auto const own = in_quotes(own_names[number]);
    return own_names[number] == tensors[number].name
               ? own
               : concat({own, " (", in_quotes(tensors[number].name), " in the file)"});
  };
  std::size_t blocks = 0;  // one more than the largest number of a layer
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    auto const found = match_of(tensors[i].name);
    if (found.part == nullptr ||
        presence_of(model.architecture, *found.part, found.is_bias) == gguf_presence::ignored)
      throw input_error({"save_gguf: llama.cpp's ", model.architecture, " has no tensor for ",
                         text_of(i),
                         "; names must be Hugging Face's, such as "
                         "'model.layers.0.self_attn.q_proj.weight'; write pairs for others in "
                         "save_gguf_options::names"});
    if (!numbers.emplace(found.name(), i).second)
      throw input_error({"save_gguf: ", text_of(numbers[found.name()]), " and ", text_of(i),
                         " would both be ", in_quotes(found.name()),
                         "; change the pairs in save_gguf_options::names"});
    if (found.block && *found.block >= tensors.size())
      throw input_error({"save_gguf: ", text_of(i), " is in layer ", *found.block, ", but only ",
                         tensors.size(), " tensors are given, which cannot be that many layers"});
    if (found.block) blocks = std::max(blocks, *found.block + 1);
    matches.push_back(found);
  }
  std::vector<std::string> lacking;
  auto const require = [&](gguf_part const& part, std::optional<std::size_t> block) {
    for (bool const is_bias : {false, true}) {
      gguf_match const wanted{&part, is_bias, block};
      if (presence_of(model.architecture, part, is_bias) == gguf_presence::required &&
          !numbers.contains(wanted.name()))
        lacking.push_back(
            block ? concat({"model.layers.", *block, ".", part.from, is_bias ? ".bias" : ".weight"})
                  : concat({part.from, is_bias ? ".bias" : ".weight"}));
    }
  };
  for (auto const& part : gguf_whole_parts) require(part, {});
  for (std::size_t block = 0; block < std::max(blocks, std::size_t{1}); ++block)
    for (auto const& part : gguf_block_parts) require(part, block);
  if (!numbers.contains("output.weight") && model.ties_head == false)
    lacking.push_back("lm_head.weight");
  if (!lacking.empty())
    throw input_error({"save_gguf: the weights lack ", list_of_names(lacking, "tensor"),
                       ", which llama.cpp's ", model.architecture, " needs"});
  if (auto const head = numbers.find("output.weight");
      head != numbers.end() && model.ties_head == true)
    throw input_error({"save_gguf: the weights have ", text_of(head->second),
                       ", but gguf_model::ties_head is true, so that the head is the table of the "
                       "embedding; set ties_head to false to write this head, or leave it out of "
                       "the weights"});
  layers = agreed("layers", model.layers, blocks);

  auto const shape = [&](char const* name) -> std::vector<std::size_t> const& {
    std::size_t const number = numbers.at(name);
    auto const& out = tensors[number].shape;
    if (out.size() != 2)
      throw input_error({"save_gguf: ", text_of(number), " has the shape ", shape_text(out),
                         ", but a matrix is needed"});
    return out;
  };
  vocabulary = agreed("vocabulary", model.vocabulary, shape("token_embd.weight")[0]);
  width = agreed("width", model.width, shape("token_embd.weight")[1]);
  hidden = agreed("hidden", model.hidden, shape("blk.0.ffn_gate.weight")[0]);
  if (model.head_width == 0 && width % model.heads != 0)
    throw input_error({"save_gguf: gguf_model::heads is ", model.heads,
                       ", which does not divide the width of the weights, ", width,
                       "; set head_width"});
  head_width =
      model.head_width == 0 ? width / model.heads : needed_count("head_width", model.head_width);
  key_value_heads = model.key_value_heads == 0
                        ? model.heads
                        : needed_count("key_value_heads", model.key_value_heads);
  if (head_width % 2 != 0)
    throw input_error({"save_gguf: a head has ", head_width,
                       " features, but rotary positions need an even number"});
  if (model.heads % key_value_heads != 0)
    throw input_error({"save_gguf: gguf_model::heads is ", model.heads,
                       ", which is not a multiple of key_value_heads, ", key_value_heads});
  auto const length = [&](gguf_length of) {
    switch (of) {
      case gguf_length::one: return std::size_t{1};
      case gguf_length::width: return width;
      case gguf_length::queries: return model.heads * head_width;
      case gguf_length::keys: return key_value_heads * head_width;
      case gguf_length::hidden: return hidden;
      case gguf_length::head: return head_width;
      case gguf_length::vocabulary: return vocabulary;
    }
    return std::size_t{0};
  };
  // Returns the end of a sentence on a length that weights do not have.
  auto const origin = [&](gguf_length of) -> std::string {
    auto const heads = [&](char const* member, std::size_t count) {
      return concat({"; ", member, " ", count, " x head width ", head_width, " = ", length(of),
                     "; correct gguf_model::", member, " or head_width"});
    };
    if (of == gguf_length::queries) return heads("heads", model.heads);
    if (of == gguf_length::keys) return heads("key_value_heads", key_value_heads);
    return of == gguf_length::head ? "; correct gguf_model::head_width" : "";
  };
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    auto const& [part, is_bias, block] = matches[i];
    bool const is_matrix = !is_bias && part->columns != gguf_length::one;
    gguf_tensor to{.name = matches[i].name(),
                   .type = is_matrix ? matrices : gguf_type::f32,
                   .rank = is_matrix ? 2 : 1,
                   .rows = length(part->rows),
                   .columns = is_matrix ? length(part->columns) : 1};
    auto const wanted = is_matrix ? std::vector{to.rows, to.columns} : std::vector{to.rows};
    if (auto const& found = tensors[i].shape; found != wanted) {
      bool const is_turned =
          is_matrix && found.size() == 2 && found[0] == to.columns && found[1] == to.rows;
      bool const has_rows = found.size() == wanted.size() && found[0] == wanted[0];
      throw input_error({"save_gguf: ", text_of(i), " has the shape ", shape_text(found),
                         ", but the model's numbers give ", shape_text(wanted),
                         is_turned ? "; store it with weight_order::output_input"
                                   : origin(has_rows ? part->columns : part->rows)});
    }
    if (to.type == gguf_type::q8_0 && to.columns % q8_0_elements != 0) to.type = gguf_type::f16;
    // The converter of llama.cpp reorders queries and keys of this architecture alone.
    if (model.architecture == "llama" && part->to == "attn_q") to.interleaved_heads = model.heads;
    if (model.architecture == "llama" && part->to == "attn_k")
      to.interleaved_heads = key_value_heads;
    parameters.push_back({own_names[i], std::move(to)});
  }
}

PLAIT_DECL std::vector<float> rope_factors(gguf_model const& model, std::size_t head_width) {
  std::vector<float> out;
  if (!model.rope_scaling) return out;
  auto const& scaling = *model.rope_scaling;
  auto const positions = static_cast<double>(scaling.original_positions);
  for (std::size_t i = 0; i < head_width; i += 2) {
    double const frequency =
        std::pow(model.rope_base, -static_cast<double>(i) / static_cast<double>(head_width));
    double const turns = positions * frequency / (2 * std::numbers::pi);
    double factor = 1;
    if (turns < scaling.low_frequency_factor) {
      factor = scaling.factor;
    } else if (turns <= scaling.high_frequency_factor) {
      double const share = (turns - scaling.low_frequency_factor) /
                           (scaling.high_frequency_factor - scaling.low_frequency_factor);
      factor = 1 / ((1 - share) / scaling.factor + share);
    }
    out.push_back(static_cast<float>(factor));
  }
  return out;
}

/// Returns the number of a file's main type in llama.cpp.
PLAIT_DECL std::uint32_t file_type_of(gguf_type matrices) {
  switch (matrices) {
    case gguf_type::f32: return 0;
    case gguf_type::f16: return 1;
    case gguf_type::q8_0: return 7;
    case gguf_type::bf16: return 32;
  }
  return 0;
}

PLAIT_DECL void add_model(gguf_model const& model, gguf_layout const& layout, gguf_type matrices,
                          gguf_metadata& to) {
  auto const key = [&](char const* end) { return concat({model.architecture, ".", end}); };
  auto const add = [&](char const* end, std::size_t value) {
    to.add(key(end), static_cast<std::uint32_t>(value));
  };
  to.add("general.architecture", std::string_view(model.architecture));
  to.add("general.type", std::string_view("model"));
  to.add("general.name", std::string_view(model.name));
  to.add("general.file_type", file_type_of(matrices));
  to.add("general.quantization_version", std::uint32_t{2});
  add("vocab_size", layout.vocabulary);
  add("context_length", model.context_length);
  add("embedding_length", layout.width);
  add("block_count", layout.layers);
  add("feed_forward_length", layout.hidden);
  add("attention.head_count", model.heads);
  add("attention.head_count_kv", layout.key_value_heads);
  add("attention.key_length", layout.head_width);
  add("attention.value_length", layout.head_width);
  add("rope.dimension_count", layout.head_width);
  to.add(key("attention.layer_norm_rms_epsilon"), static_cast<float>(model.norm_epsilon));
  to.add(key("rope.freq_base"), static_cast<float>(model.rope_base));
}

}  // namespace plait::detail
