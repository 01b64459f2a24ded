// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <nlohmann/json.hpp>

#include <plait/checkpoint/check_config.hpp>
#include <plait/checkpoint/load_weights.hpp>
#include <plait/checkpoint/weights_folder.hpp>
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

/// Compares the config.json that transformers writes next to weights with the model. Returns an
/// empty report if there is none, or if another program has written it: then it has no model_type.
///
/// `weights`: a file or its folder.
///
/// Errors: the errors of plait::check_config.
inline plait::ext::config_report check_config_of(std::filesystem::path const& weights,
                                                 plait::model_config const& model) {
  std::error_code none;
  auto const folder =
      std::filesystem::is_directory(weights, none) ? weights : weights.parent_path();
  auto const path = folder / "config.json";
  if (!plait::detail::is_regular_file(path)) return {};
  if (std::filesystem::file_size(path, none) <= plait::detail::most_config_bytes) {
    std::ifstream file(path);
    auto const found = nlohmann::json::parse(file, nullptr, false);
    if (found.is_object() && !found.contains("model_type")) return {};
  }
  return plait::check_config(folder, model);
}

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
/// except masks and frequencies, which are not parameters. `is_tied`: config.json declares that the
/// head is the table.
///
/// Errors: input_error that names the tensors that are missing, have another shape or are left
///         over.
template <class Source>
init_names names_of_init(program_description const& of, entry const& job, bool is_tied,
                         Source& from) {
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
      (of.in_files.is_tied || is_tied)) {
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
