// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/checkpoint/weights_index.hpp"

#include <optional>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "plait/checkpoint/manifest_rules.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/quote.hpp"
#include "plait/io/json.hpp"
#include "plait/io/safetensors_header.hpp"

namespace plait::detail {

// Reads the object "weight_map" of an index: the file of each tensor.
PLAIT_DECL weights_index read_weight_map(json_object const& map, file_name const& file) {
  weights_index out;
  for (auto const& [tensor, value] : map) {
    if (out.contains(tensor))
      file.refuse(concat({"names the tensor ", in_quotes(tensor), " twice"}));
    if (out.size() == most_tensors)
      file.refuse(concat({"names more than ", most_tensors, " tensors"}));
    std::string& name = out[tensor];
    if (!take(value, name))
      file.refuse(concat({"has a weight_map that does not map tensor ", in_quotes(tensor),
                          " to the name of a file"}));
    if (name.find('/') != std::string::npos || !is_plain_file_name(name))
      file.refuse(concat({"states that tensor ", in_quotes(tensor), " is in ", in_quotes(name),
                          ", which is not the name of a file in the folder of the index (only "
                          "letters, digits and . _ - are allowed)"}));
  }
  return out;
}

PLAIT_DECL weights_index parse_weights_index(std::string const& text, file_name const& file) {
  auto const index = read_json(text, most_index_bytes, file);
  auto const* const members = object_in(index);
  if (members == nullptr) file.refuse("is not an object");
  std::optional<weights_index> out;
  for (auto const& [key, value] : *members) {
    if (key != "weight_map") continue;
    if (out) file.refuse("has two weight_maps");
    auto const* const map = object_in(value);
    if (map == nullptr) file.refuse("has a weight_map that is not an object");
    out = read_weight_map(*map, file);
  }
  if (!out)
    file.refuse("has no weight_map, which maps the name of each tensor to the name of its file");
  if (out->empty()) file.refuse("names no tensor");
  return *std::move(out);
}

PLAIT_DECL weights_index read_weights_index(std::filesystem::path const& path) {
  open_file const file(path, "index");
  if (file.size() > most_index_bytes)
    file.name().refuse(
        concat({"has ", file.size(), " bytes; at most ", most_index_bytes, " are allowed"}));
  std::string text(file.size(), '\0');
  file.read(std::as_writable_bytes(std::span(text)), 0);
  return parse_weights_index(text, file.name());
}

PLAIT_DECL std::string to_text(weights_index const& index, std::size_t bytes) {
  nlohmann::ordered_json out;
  out["metadata"]["total_size"] = bytes;
  out["weight_map"] = index;
  std::string text;
  try {
    text = concat({out.dump(2), "\n"});
  } catch (nlohmann::json::type_error const&) {
    throw input_error("an index of weights cannot be written: the name of a tensor is not UTF-8");
  }
  if (text.size() > most_index_bytes)
    throw input_error({"an index of weights cannot be written: it would have ", text.size(),
                       " bytes; at most ", most_index_bytes, " are allowed"});
  return text;
}

}  // namespace plait::detail
