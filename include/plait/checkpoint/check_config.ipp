// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/checkpoint/check_config.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "plait/checkpoint/compare_config.hpp"
#include "plait/checkpoint/config_fields.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/file.hpp"
#include "plait/core/quote.hpp"
#include "plait/io/json.hpp"

namespace plait::detail {

/// Returns true if a JSON value is a string that equals `text`.
PLAIT_DECL bool is_text(json_value const& value, std::string_view text) {
  std::string found;
  return take(value, found) && found == text;
}

PLAIT_DECL bool contains_text(std::vector<std::string> const& texts, json_value const& value) {
  return std::any_of(texts.begin(), texts.end(),
                     [&](std::string const& text) { return is_text(value, text); });
}

/// Returns true if `list` is a JSON list that contains the string `name`.
PLAIT_DECL bool list_has(json_value const* list, std::string const& name) {
  auto const* const all = list == nullptr ? nullptr : list_in(*list);
  return all != nullptr && std::any_of(all->begin(), all->end(),
                                       [&](json_value const& one) { return is_text(one, name); });
}

PLAIT_DECL bool is_same_value(json_value const& a, json_value const& b) {
  if (!a.is_number() || !b.is_number()) return a == b;
  auto const x = a.get<double>(), y = b.get<double>();
  return std::abs(x - y) <= 1e-9 * std::max(std::abs(x), std::abs(y));
}

PLAIT_DECL std::string json_text(json_value const& value) {
  if (std::string text; take(value, text)) return in_quotes(text);
  auto const text = in_quotes(value.dump());
  return text.substr(1, text.size() - 2);
}

/// Returns the name that this comparison uses for an activation function, because transformers has
/// several names for some functions.
PLAIT_DECL json_value activation_name(json_value const& value) {
  for (auto const* const name :
       {"gelu_pytorch_tanh", "gelu_python_tanh", "gelu_fast", "gelu_accurate"})
    if (is_text(value, name)) return "gelu_new";
  if (is_text(value, "gelu_python")) return "gelu";
  if (is_text(value, "swish")) return "silu";
  return value;
}

/// Returns true if a model type of transformers reads a field.
PLAIT_DECL bool is_read(json_value const* defaults, std::string_view field) {
  return defaults == nullptr || member_of(defaults, field) != nullptr;
}

PLAIT_DECL json_value window_in(json_value const& found, json_value const* defaults) {
  auto const value = [&](std::string_view name) {
    auto const* const given = member_of(&found, name);
    auto const* const out = given != nullptr ? given : member_of(defaults, name);
    return out != nullptr && is_read(defaults, name) ? *out : json_value();
  };
  auto const* const kinds = member_of(&found, "layer_types");
  bool const has_no_kind = kinds == nullptr || list_in(*kinds) == nullptr;
  if (value("use_sliding_window") == json_value(false) ||
      (!has_no_kind && !list_has(kinds, "sliding_attention")))
    return {};
  return value("sliding_window");
}

/// Compares the fields of a config.json with a model, one after the other.
class config_comparison {
 public:
  config_comparison(file_name const& file, json_value const& found, model_config const& of,
                    compared_model const& words)
      : file_(file),
        found_(found),
        of_(of),
        words_(words),
        known_(json_value::parse(config_fields())) {}

  ext::config_report report() {
    check_model();
    refuse_repeated(*object_in(found_), file_, "");
    compare_type();
    compare_sizes();
    compare_windows();
    compare_rope();
    compare_sequence();
    compare_rest();
    refuse_differences();
    return std::move(out_);
  }

 private:
  /// The value of a field: the value in the file or, if the field is missing in the file, the
  /// default of transformers.
  struct value {
    std::string name;
    json_value json{};
    bool is_given = false, is_known = false;
  };

  /// Refuses a model_config that cannot describe a model, for example because a size is 0.
  void check_model() const {
    for (auto const& [name, size] : std::initializer_list<std::pair<char const*, std::size_t>>{
             {"vocab_size", of_.vocab_size},
             {"hidden_size", of_.hidden_size},
             {"intermediate_size", of_.intermediate_size},
             {"num_hidden_layers", of_.num_hidden_layers},
             {"num_attention_heads", of_.num_attention_heads},
             {"sequence", of_.sequence}})
      if (size == 0)
        throw input_error({"check_config: model_config::", name,
                           " is 0; give the size that the program's model has"});
    if (of_.model_type.empty())
      throw input_error(
          "check_config: model_config::model_type is empty; name the model type of the program's "
          "model, such as llama");
    if (of_.head_dim == 0 && of_.hidden_size % of_.num_attention_heads != 0)
      throw input_error({"check_config: model_config has a hidden_size of ", of_.hidden_size,
                         ", which is not a multiple of its num_attention_heads ",
                         of_.num_attention_heads, "; give head_dim, too"});
    if (!of_.layer_types.empty() && of_.layer_types.size() != of_.num_hidden_layers)
      throw input_error({"check_config: model_config has ", of_.layer_types.size(),
                         " layer_types for ", of_.num_hidden_layers,
                         " layers; give one for each layer, or none"});
    for (auto const& [name, number] : std::initializer_list<std::pair<char const*, double>>{
             {"rms_norm_eps", of_.rms_norm_eps},
             {"rope_theta", of_.rope_theta},
             {"rope_local_base_freq", of_.rope_local_base_freq},
             {"rope_scaling.factor", of_.rope_scaling.factor}})
      if (!std::isfinite(number) || number <= 0)
        throw input_error({"check_config: model_config::", name, " is ", json_value(number).dump(),
                           "; it must be greater than 0"});
  }

  json_value const* defaults() const { return member_of(member_of(&known_, "defaults"), type_); }

  /// Returns the value of a field, whose name in Llama's config.json is `field`. In the file, the
  /// field has the name that the file's model type uses.
  value find(std::string const& field) {
    auto const* const other = member_of(member_of(member_of(&known_, "names"), type_), field);
    value out{.name = other == nullptr ? field : other->get<std::string>()};
    seen_.insert(out.name);
    auto const* json = member_of(&found_, out.name);
    out.is_given = json != nullptr;
    if (json == nullptr) json = member_of(defaults(), out.name);
    out.is_known = json != nullptr;
    if (json != nullptr) out.json = *json;
    return out;
  }

  /// Returns the value of a field. Returns `instead` if the value is null, or if the field is
  /// missing and the model type does not imply its value.
  value find_or(std::string const& field, json_value const& instead) {
    auto out = find(field);
    bool const is_implied = !out.is_known && defaults() != nullptr;
    if (!out.json.is_null() || is_implied) return out;
    return {out.name, instead, false, true};
  }

  void differ(value const& theirs, std::string const& ours) {
    auto const& name = theirs.name;
    auto const json = theirs.is_known ? json_text(theirs.json) : "";
    differences_.push_back(
        theirs.is_given
            ? concat({name, " is ", json, " in the file and ", ours, " in ", words_.name})
        : theirs.is_known
            ? concat({"the file gives no ", name, ", so that transformers takes ", json, ", and ",
                      words_.name, " has ", ours})
            : concat({"the file gives no ", name, ", and ", words_.name, " has ", ours}));
  }

  /// Compares a field of the file with the program's value. If the field is missing in the file and
  /// the model type is known but has no default for the field, the model type implies the value,
  /// and nothing is compared.
  void compare(value const& theirs, json_value const& ours) {
    if (!theirs.is_known && (defaults() != nullptr || is_bias(theirs.name))) return;
    if (!theirs.is_known || !is_same_value(theirs.json, ours)) differ(theirs, json_text(ours));
  }
  static bool is_bias(std::string_view name) {
    return name == "attention_bias" || name == "mlp_bias";
  }
  void compare(std::string const& field, json_value const& ours) { compare(find(field), ours); }

  void compare_type() {
    seen_.insert({"model_type", "architectures"});
    type_ = of_.model_type.front();
    std::string ours;
    for (auto const& name : of_.model_type)
      ours += concat({ours.empty() ? "" : " or ", in_quotes(name)});
    if (auto const* const type = member_of(&found_, "model_type")) {
      take(*type, type_);
      if (!contains_text(of_.model_type, *type)) differ({"model_type", *type, true, true}, ours);
    }
    auto const* const classes = member_of(&found_, "architectures");
    auto expected = of_.architectures;
    auto const* const of_type = member_of(member_of(&known_, "architectures"), type_);
    if (expected.empty() && of_type != nullptr) expected.push_back(of_type->get<std::string>());
    if (classes == nullptr || classes->is_null() || expected.empty()) return;
    auto const* const list = list_in(*classes);
    bool const fits =
        list != nullptr && std::all_of(list->begin(), list->end(), [&](json_value const& one) {
          return contains_text(expected, one);
        });
    if (!fits) differ({"architectures", *classes, true, true}, json_text(json_value(expected)));
  }

  void compare_sizes() {
    compare("vocab_size", of_.vocab_size);
    auto const width = find("hidden_size"), heads = find("num_attention_heads");
    compare(width, of_.hidden_size);
    // If intermediate_size is null or missing, it is four times the width, as in GPT-2.
    std::uint64_t wide = 0, count = 0;
    bool const are_sizes = take(width.json, wide) && take(heads.json, count) && count > 0;
    compare(find_or("intermediate_size", are_sizes ? json_value(4 * wide) : json_value()),
            of_.intermediate_size);
    compare("num_hidden_layers", of_.num_hidden_layers);
    compare(heads, of_.num_attention_heads);
    compare(find_or("num_key_value_heads", heads.json),
            of_.num_key_value_heads > 0 ? of_.num_key_value_heads : of_.num_attention_heads);
    auto const head_dim = own_head_dim();
    compare(find_or("head_dim", are_sizes ? json_value(wide / count) : json_value()), head_dim);
    auto const act = find("hidden_act");
    if (!is_same_value(activation_name(act.json), activation_name(of_.hidden_act)))
      compare(act, of_.hidden_act);
    compare("rms_norm_eps", of_.rms_norm_eps);
    compare("attention_bias", of_.attention_bias);
    compare("mlp_bias", of_.mlp_bias);
    // transformers divides attention scores by the square root of this field, and plait divides
    // them by the square root of head_dim, so the two must be equal.
    if (!is_other("query_pre_attn_scalar"))
      if (auto const scale = find("query_pre_attn_scalar"); scale.is_known)
        compare(scale, head_dim);
    auto const tied = find("tie_word_embeddings");
    out_.tie_word_embeddings = tied.json == json_value(true);
    if (of_.tie_word_embeddings || !tied.json.is_boolean())
      compare(tied, of_.tie_word_embeddings.value_or(false));
  }

  std::size_t own_head_dim() const {
    return of_.head_dim > 0 ? of_.head_dim : of_.hidden_size / of_.num_attention_heads;
  }

  /// Returns the kind of attention of each layer: the list layer_types or, if the file lacks it,
  /// the list that transformers derives from other fields.
  value kinds_of_layers(std::size_t count) {
    auto out = find("layer_types");
    auto const pattern = find("sliding_window_pattern"), first = find("max_window_layers");
    seen_.insert("_sliding_window_pattern");
    if (out.is_given && !out.json.is_null()) return out;
    json_list kinds;
    std::uint64_t every = 0, from = 0;
    bool const has_pattern = take(pattern.json, every) && every > 0;
    bool const has_first = take(first.json, from);
    for (std::size_t layer = 0; layer < count; ++layer)
      kinds.emplace_back((has_pattern && (layer + 1) % every == 0) || (has_first && layer < from)
                             ? "full_attention"
                             : "sliding_attention");
    return {"layer_types", json_value(kinds), false, true};
  }

  void compare_windows() {
    auto window = find("sliding_window");
    auto const use = find("use_sliding_window");
    auto const given = window.json;
    bool const is_ignored =
        window.is_given && !given.is_null() && !is_read(defaults(), "sliding_window");
    window.json = window_in(found_, defaults());
    window.is_known = true;  // if the model type lacks the field, there is no window
    if (use.is_given && !use.json.is_boolean()) differ(use, given.is_null() ? "false" : "true");
    else if (use.is_given && !given.is_null() && !is_ignored &&
             !is_read(defaults(), "use_sliding_window"))
      note(concat({use.name, " is ", use.json.dump(), ", which transformers ignores for the ",
                   "model_type ", in_quotes(type_)}));
    auto const theirs = kinds_of_layers(of_.num_hidden_layers);
    auto const* const list = list_in(theirs.json);
    auto ours = of_.layer_types;
    if (ours.empty()) ours.resize(of_.num_hidden_layers, "sliding_attention");
    constexpr char const* with_window = "sliding_attention";
    // If the file lists full attention for all layers, no layer uses the window.
    if (list != nullptr && !list_has(&theirs.json, with_window)) window.json = nullptr;
    bool const has_any = std::find(ours.begin(), ours.end(), with_window) != ours.end();
    std::size_t const own_window = has_any ? of_.sliding_window : 0;
    std::uint64_t size = 0;
    auto const without_effect = [&](std::uint64_t width) { return width >= of_.sequence; };
    bool const is_wide = take(window.json, size) && without_effect(size);
    bool const own_is_wide = own_window == 0 || without_effect(own_window);
    auto const own = own_window == 0 ? json_value() : json_value(own_window);
    if (is_ignored) {
      auto const text =
          concat({window.name, " is ", json_text(given),
                  ", which transformers ignores for the model_type ", in_quotes(type_)});
      if (own_is_wide) note(text);
      else
        differences_.push_back(
            concat({text, ", and ", words_.name, " has a window of ", own_window}));
    } else if (is_wide && own_is_wide && !is_same_value(window.json, own))
      note(concat({window.name, " is ", window.json.dump(),
                   ", which has no effect on a sequence of ", of_.sequence, " positions"}));
    else if (!(own_is_wide && window.json.is_null())) compare(window, own);
    bool const has_window = !window.json.is_null() && !is_wide && !own_is_wide;
    bool const is_plain = list != nullptr && list->size() == ours.size() &&
                          std::all_of(list->begin(), list->end(), [&](json_value const& kind) {
                            return is_text(kind, with_window) || is_text(kind, "full_attention");
                          });
    if (!is_plain)
      differ(theirs,
             concat({"full_attention or sliding_attention for each of ", ours.size(), " layers"}));
    // The kinds are compared layer by layer if they matter: if a window has an effect, or if the
    // layers with a window have rotary positions of their own.
    else if (has_window || find("rope_local_base_freq").is_known)
      compare_layers(theirs, *list, ours);
  }

  void compare_layers(value const& theirs, json_list const& list,
                      std::vector<std::string> const& ours) {
    for (std::size_t layer = 0; layer < ours.size(); ++layer)
      if (!is_text(list[layer], ours[layer])) {
        auto one = theirs;
        one.name = concat({"layer_types[", layer, "]"});
        one.json = list[layer];
        return differ(one, in_quotes(ours[layer]));
      }
  }

  void compare_rope() {
    // A model type without rope_theta, such as GPT-2, has no rotary positions. If its file has a
    // field of rotary positions, compare_rest() reports the field as unknown.
    if (defaults() != nullptr && member_of(defaults(), "rope_theta") == nullptr) return;
    auto const theta = find("rope_theta"), local = find("rope_local_base_freq");
    std::string name = "rope_scaling";
    json_value const* from = nullptr;
    for (auto const* const each : {"rope_scaling", "rope_parameters"}) {
      auto const* const object = member_of(&found_, each);
      seen_.insert(each);
      if (object == nullptr || object->is_null()) continue;
      if (from != nullptr) file_.refuse("has rope_scaling and rope_parameters; remove one of them");
      if (object_in(*object) == nullptr) return differ({each, *object, true, true}, "an object");
      from = object;
      name = each;
      refuse_repeated(*object_in(*object), file_, concat({name, "."}));
    }
    auto const* const full = member_of(from, "full_attention");
    auto const* const sliding = member_of(from, "sliding_attention");
    if (!local.is_known || (full == nullptr && sliding == nullptr)) {
      compare_rope_of(from, name, theta, of_.rope_theta, of_.rope_scaling);
      if (local.is_known) compare(local, of_.rope_local_base_freq);
      return;
    }
    for (auto const& [key, part] : *object_in(*from))
      if (key != "full_attention" && key != "sliding_attention")
        rest(concat({name, ".", key}), part);
    for (auto const* const part : {full, sliding})
      if (part != nullptr && !part->is_null() && object_in(*part) == nullptr)
        return differ({name, *from, true, true}, "an object for each type of layer");
    compare_rope_of(full, concat({name, ".full_attention"}), theta, of_.rope_theta,
                    of_.rope_scaling);
    compare_rope_of(sliding, concat({name, ".sliding_attention"}), local, of_.rope_local_base_freq,
                    {});
  }

  /// Compares the file's rotary positions with the program's values `own_theta` and `own`. `from`:
  /// the object of the file with these settings, null if there is none; `theta`: the field
  /// rope_theta outside of this object.
  void compare_rope_of(json_value const* from, std::string const& name, value theta,
                       double own_theta, model_config::rope_numbers const& own) {
    if (auto const* const inner = member_of(from, "rope_theta")) {
      if (theta.is_given && !is_same_value(*inner, theta.json))
        differences_.push_back(concat({theta.name, " is ", json_text(theta.json),
                                       " in the file and ", json_text(*inner), " in its ", name}));
      theta = {concat({name, ".rope_theta"}), *inner, true, true};
    }
    compare(theta, own_theta);
    value type{concat({name, ".rope_type"}), "default", false, true};
    for (auto const* const key : {"type", "rope_type"})
      if (auto const* const found = member_of(from, key); found != nullptr && !found->is_null()) {
        if (type.is_given && type.json != *found)
          differences_.push_back(
              concat({name, " has the type ", json_text(type.json), " and the rope_type ",
                      json_text(*found), " in the file"}));
        type.json = *found;
        type.is_given = true;
      }
    compare(type, own.rope_type);
    std::set<std::string_view> used{"rope_theta", "rope_type", "type"};
    auto const compare_part = [&](char const* key, json_value const& ours, value missing) {
      used.insert(key);
      missing.name = concat({name, ".", key});
      auto const* const found = member_of(from, key);
      if (found != nullptr) missing = {missing.name, *found, true, true};
      if (!missing.is_known || !is_same_value(missing.json, ours)) differ(missing, json_text(ours));
    };
    bool const is_llama = is_text(type.json, "llama3");
    if (!is_text(type.json, "default")) compare_part("factor", own.factor, {});
    if (is_llama) {
      compare_part("low_freq_factor", own.low_freq_factor, {});
      compare_part("high_freq_factor", own.high_freq_factor, {});
      auto positions = find("max_position_embeddings");
      positions.is_given = false;
      compare_part("original_max_position_embeddings", own.original_max_position_embeddings,
                   positions);
    }
    if (from == nullptr || object_in(*from) == nullptr) return;
    for (auto const& [key, part] : *object_in(*from)) {
      if (used.contains(key)) continue;
      // partial_rotary_factor can be in the object or outside of it, with the same meaning, so it
      // is compared under the same name.
      if (key == "partial_rotary_factor") rest(key, part);
      else rest(concat({name, ".", key}), part);
    }
  }

  void compare_sequence() {
    auto const most = find("max_position_embeddings");
    auto const positions = concat({"a sequence of ", of_.sequence, " positions"});
    std::uint64_t number = 0;
    if (!most.is_known) return differ(most, positions);
    if (!take(most.json, number) || of_.sequence > number) differ(most, positions);
    else if (of_.sequence < number)
      note(concat({most.name, " is ", number, ", and the program has ", positions}));
  }

  bool is_other(std::string const& name) const {
    return std::any_of(of_.others.begin(), of_.others.end(),
                       [&](auto const& pair) { return pair.first == name; });
  }

  /// Compares the fields that have no member in model_config: first the fields of the file, then
  /// the fields of model_config::others that the file lacks.
  void compare_rest() {
    for (auto const& [name, text] : of_.others) {
      if (seen_.contains(name))
        throw input_error({"check_config: model_config::others has ", in_quotes(name),
                           ", which check_config compares with the other members; leave it out"});
      if (!json_value::accept(text))
        throw input_error({"check_config: model_config::others has ", in_quotes(text), " for ",
                           in_quotes(name), "; write a value as JSON, such as 0.5 or \"text\""});
    }
    for (auto const& [name, json] : *object_in(found_))
      if (!seen_.contains(name)) rest(name, json);
    for (auto const& [name, text] : of_.others) {
      if (compared_.contains(name)) continue;
      // If a field is missing in the file, its value is the default of the model type or, without a
      // default, null.
      auto const* const instead = member_of(defaults(), name);
      value const theirs{name, instead == nullptr ? json_value() : *instead, false, true};
      auto const ours = json_value::parse(text);
      if (!is_same_value(theirs.json, ours)) differ(theirs, json_text(ours));
    }
  }

  /// Compares one field of the file that has no member in model_config.
  void rest(std::string const& name, json_value const& json) {
    value const theirs{name, json, true, true};
    for (auto const& [other, text] : of_.others)
      if (other == name) {
        compared_.insert(name);
        auto const ours = json_value::parse(text, nullptr, false);
        if (!is_same_value(json, ours)) differ(theirs, json_text(ours));
        return;
      }
    if (auto const* const accepted = member_of(member_of(&known_, "accepted"), name)) {
      auto const& values = *list_in(*accepted);
      bool const fits = std::any_of(values.begin(), values.end(), [&](json_value const& one) {
        return is_same_value(json, one);
      });
      if (!fits) return differ(theirs, json_text(values.front()));
    } else if (list_has(member_of(&known_, "dropout"), name)) {
      if (!is_same_value(json, 0) && !json.is_null())
        note(concat({name, " is ", json_text(json), ", which has an effect only in training"}));
    } else if (!list_has(member_of(&known_, "harmless"), name)) {
      unknown_.push_back(concat({in_quotes(name), " (", json_text(json), ")"}));
      return;
    }
    out_.harmless.push_back(name);
  }

  void note(std::string const& text) { out_.notes.push_back(text); }

  static std::string joined(std::vector<std::string> const& parts, char const* between) {
    constexpr std::size_t most = 50;
    std::string out;
    for (std::size_t i = 0; i < std::min(parts.size(), most); ++i)
      out += concat({i == 0 ? "" : between, parts[i]});
    if (parts.size() > most) out += concat({between, "and ", parts.size() - most, " more"});
    return out;
  }

  void refuse_differences() const {
    if (differences_.empty() && unknown_.empty()) return;
    auto text = concat({words_.problem, ": "});
    if (!differences_.empty())
      text += concat({joined(differences_, "; "), "; ", words_.if_different});
    if (!unknown_.empty())
      text += concat({differences_.empty() ? "" : "; ", "plait does not know the field",
                      unknown_.size() == 1 ? " " : "s ", joined(unknown_, ", "),
                      ", which may change the model; ",
                      unknown_.size() == 1 ? words_.if_unknown_one : words_.if_unknown_more});
    file_.refuse(text);
  }

  file_name const& file_;
  json_value const& found_;
  model_config const& of_;
  compared_model const& words_;
  json_value known_;
  std::string type_;
  std::set<std::string, std::less<>> seen_, compared_;
  std::vector<std::string> differences_, unknown_;
  ext::config_report out_;
};

PLAIT_DECL ext::config_report compare_config(std::string const& text, file_name const& file,
                                             model_config const& of) {
  constexpr int most_nested = 100;
  if (is_nested_deeper(text, most_nested))
    file.refuse(concat({"has more than ", most_nested, " lists and objects within each other"}));
  auto const found = read_json(text, most_config_bytes, file);
  if (object_in(found) == nullptr) file.refuse("is not an object");
  return compare_config(found, file, of, {});
}

PLAIT_DECL ext::config_report compare_config(json_value const& found, file_name const& file,
                                             model_config const& of, compared_model const& words) {
  return config_comparison(file, found, of, words).report();
}

}  // namespace plait::detail

namespace plait {

PLAIT_DECL ext::config_report check_config(std::filesystem::path const& folder,
                                           model_config const& of) {
  detail::open_file const file(folder / "config.json", "configuration");
  if (file.size() > detail::most_config_bytes)
    file.name().refuse(ext::concat(
        {"has ", file.size(), " bytes; at most ", detail::most_config_bytes, " are allowed"}));
  std::string text(file.size(), '\0');
  file.read(std::as_writable_bytes(std::span(text)), 0);
  return detail::compare_config(text, file.name(), of);
}

}  // namespace plait
