// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <nlohmann/json.hpp>

#include <plait/checkpoint/load_weights.hpp>
#include <plait/checkpoint/weights_folder.hpp>
#include <plait/core/concat.hpp>
#include <plait/core/file.hpp>
#include <plait/core/name_pattern.hpp>
#include <plait/core/quote.hpp>
#include <plait/io/safetensors.hpp>

#include "train_gpt/options.hpp"
#include "train_gpt/registry.hpp"

// Reads the weights of --init: finds their names in the file, and checks that they belong to the
// same model.
namespace train_gpt {

/// The parameters that --lora trains and that --save then writes. A file for --init may lack them.
inline constexpr char const* lora_names = "*.lora_*";

/// Opens a file or a folder of weights and calls use(weights).
template <class Use>
void with_weights(std::string const& path, Use use) {
  if (std::error_code none; std::filesystem::is_directory(path, none))
    use(plait::weights_folder(path));
  else use(plait::safetensors_reader(path));
}

/// The config.json that transformers writes next to the weights.
class model_config {
 public:
  /// `weights`: a file or its folder.
  ///
  /// Errors: input_error if there is a config.json that cannot be read or is not JSON.
  explicit model_config(std::filesystem::path const& weights) {
    std::error_code none;
    path_ = (std::filesystem::is_directory(weights, none) ? weights : weights.parent_path()) / file;
    constexpr std::size_t most_bytes = std::size_t{1} << 20;
    if (!plait::detail::is_regular_file(path_)) return;
    plait::detail::open_file const found(path_, "configuration");
    if (found.size() > most_bytes)
      found.name().refuse(plait::ext::concat(
          {"has ", found.size(), " bytes; at most ", most_bytes, " are allowed"}));
    std::string text(found.size(), '\0');
    found.read(std::as_writable_bytes(std::span(text)), 0);
    values_ = nlohmann::json::parse(text, nullptr, false);
    if (values_.is_discarded()) found.name().refuse("is not JSON");
    // Other programs also write files of this name.
    if (!values_.is_object() || !values_.contains("model_type")) values_ = nullptr;
  }

  /// Returns true if the file declares that the head is the embedding's table (tied weights).
  [[nodiscard]] bool is_tied() const { return find("tie_word_embeddings") == true; }

  /// Errors: input_error that names the first value that differs from the model's, with both
  ///         values.
  void expect(std::vector<config_line> const& lines, std::string const& program) const {
    if (values_.is_null()) return;
    for (auto const& line : lines) {
      auto const found = find(line.name);
      if (found.is_null() && line.if_not_given.empty()) continue;
      auto const& as_text = found.is_null() ? line.if_not_given : found.dump();
      auto const is_same = [&](std::string const& value) {
        auto const mine = nlohmann::json::parse(value), theirs = nlohmann::json::parse(as_text);
        if (!mine.is_number() || !theirs.is_number()) return mine == theirs;
        auto const number = mine.get<double>();
        return std::abs(number - theirs.get<double>()) <= 1e-9 * std::abs(number);
      };
      bool const is_large = line.or_at_least > 0 && found.is_number() &&
                            found.get<double>() >= static_cast<double>(line.or_at_least);
      auto const ours = nlohmann::json::parse(line.values[0]).dump();
      auto const without_quotes = [](std::string const& value) {
        return value.starts_with('"') ? value.substr(1, value.size() - 2) : value;
      };
      if (!is_large && std::ranges::none_of(line.values, is_same))
        plait::detail::file_name("configuration", path_)
            .refuse(plait::ext::concat({"has the ", line.name, " ",
                                        plait::detail::in_quotes(without_quotes(as_text)),
                                        ", and the model of ", program, " ",
                                        plait::detail::in_quotes(without_quotes(ours)),
                                        ": it would compute other results from these weights"}));
    }
  }

 private:
  static constexpr char const* file = "config.json";

  /// Returns the value of a key, or null if the file lacks it. The keys of rotary positions are in
  /// a nested object with one of two names, in which older files write "type" for "rope_type".
  [[nodiscard]] nlohmann::json find(std::string const& name) const {
    if (!values_.is_object()) return nullptr;
    if (auto const found = values_.find(name); found != values_.end()) return *found;
    for (char const* const part : {"rope_parameters", "rope_scaling"})
      if (auto const within = values_.find(part); within != values_.end() && within->is_object())
        for (auto const& key : {name, std::string(name == "rope_type" ? "type" : name)})
          if (auto const found = within->find(key); found != within->end()) return *found;
    return nullptr;
  }

  std::filesystem::path path_;
  nlohmann::json values_ = nullptr;
};

/// The names under which a job finds its parameters in a file.
struct init_names {
  plait::weight_names names{};
  /// The model's separate head is initialised with the table, as the file has no head.
  bool copies_table = false;
};

/// Returns true if two matrices of a file have the same numbers.
template <class Source>
bool have_same_numbers(Source& from, std::string const& one, std::string const& other,
                       std::size_t rows, std::size_t columns) {
  std::vector<std::size_t> const extent{1, columns};
  std::vector<float> first(columns), second(columns);
  for (std::size_t row = 0; row < rows; ++row) {
    std::vector<std::size_t> const offset{row, 0};
    from.read_block(one, offset, extent, std::span(first));
    from.read_block(other, offset, extent, std::span(second));
    if (std::memcmp(first.data(), second.data(), columns * sizeof(float)) != 0) return false;
  }
  return true;
}

/// Finds the names of a job's parameters in a file, and checks that the file has no other tensors,
/// except masks and frequencies, which are not parameters.
///
/// Errors: input_error that names the tensors that are missing, have another shape or are left
///         over.
template <class Source>
init_names names_of_init(program_description const& of, entry const& job,
                         model_config const& config, Source& from) {
  auto const parameters = job.parameters();
  auto const parameter = [&](std::string const& name) {
    return std::ranges::find(parameters, name, &tensor_shape::name);
  };
  init_names out;
  auto& names = out.names;
  if (job.lora > 0) names.missing = {lora_names};
  for (auto const pattern : of.in_files.left_out)
    if (!pattern.empty()) names.extra.emplace_back(pattern);

  std::string const head = of.in_files.head, table = of.in_files.table;
  std::string const prefix = from.contains(of.in_files.prefix + table) ? of.in_files.prefix : "";
  bool const has_head = parameter(head) != parameters.end();
  if (has_head && !from.contains(head) && from.contains(prefix + table) &&
      (of.in_files.is_tied || config.is_tied())) {
    out.copies_table = true;
    names.names.push_back({head, prefix + table});
  }
  if (!prefix.empty()) {
    names.names.push_back({head, head});
    names.names.push_back({"*", prefix + "*"});
  }

  plait::detail::names_in_file const in_file("--init", names.names);
  std::vector<std::string> taken;
  for (auto const& tensor : parameters) {
    auto const theirs = in_file.of(tensor.name);
    if (!from.contains(theirs) && plait::detail::matches_any(names.missing, tensor.name)) continue;
    from.expect_shape(theirs, tensor.lengths);
    taken.push_back(theirs);
  }
  if (!has_head && from.contains(head)) {
    auto const& lengths = parameter(table)->lengths;
    from.expect_shape(head, lengths);
    if (!have_same_numbers(from, head, prefix + table, lengths[0], lengths[1]))
      throw plait::input_error("--init: " + plait::detail::in_quotes(head) + " differs from " +
                               plait::detail::in_quotes(prefix + table) +
                               ", but the head of size " + job.size + " is that table");
    names.extra.push_back(head);
  }
  std::ranges::sort(taken);
  std::string rest;
  std::size_t count = 0;
  constexpr std::size_t most_named = 20;
  for (auto const& name : from.names())
    if (!std::ranges::binary_search(taken, name) &&
        !plait::detail::matches_any(names.extra, name) && ++count <= most_named)
      rest += (rest.empty() ? "" : ", ") + plait::detail::in_quotes(name);
  if (count > 0)
    throw plait::input_error("--init: the model of " + std::string(of.name) +
                             " has no parameter for " + std::to_string(count) + " tensor" +
                             (count == 1 ? "" : "s") + " of the weights, " + rest +
                             (count > most_named ? ", ..." : "") +
                             ": these weights belong to another model or to a larger one");
  return out;
}

}  // namespace train_gpt
