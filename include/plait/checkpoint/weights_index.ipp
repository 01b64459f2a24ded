// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/checkpoint/weights_index.hpp"

#include <span>
#include <utility>

#include "plait/checkpoint/manifest_rules.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/quote.hpp"
#include "plait/io/safetensors_header.hpp"

namespace plait::detail {

PLAIT_DECL weights_index weights_index_parser::parse(std::string const& text,
                                                     file_name const& file) {
  weights_index_parser parser(file);
  parser.read(text);
  if (!parser.has_map_)
    file.refuse("has no weight_map, which says for each tensor in which file it is");
  if (parser.out_.empty()) file.refuse("names no tensor");
  return std::move(parser.out_);
}

PLAIT_DECL bool weights_index_parser::refuse_text(std::size_t at) const {
  file_.refuse(concat({"is not JSON (at its byte ", at, ")"}));
}

PLAIT_DECL bool weights_index_parser::string(std::string& text) {
  if (where_ != place::map) return value();
  if (text.find('/') != std::string::npos || !is_plain_file_name(text))
    file_.refuse(
        concat({"says that tensor ", in_quotes(name_), " is in ", in_quotes(text),
                ", which is not the name of a file in its folder, of letters, digits and . _ -"}));
  out_.emplace(std::move(name_), std::move(text));
  return true;
}

PLAIT_DECL bool weights_index_parser::start_object(std::size_t) {
  if (where_ == place::outside) where_ = place::index;
  else if (where_ == place::index && is_map_next_) where_ = place::map;
  else return begin_foreign();
  return true;
}

PLAIT_DECL bool weights_index_parser::key(std::string& name) {
  if (where_ == place::index) {
    is_map_next_ = name == "weight_map";
    if (is_map_next_ && std::exchange(has_map_, true)) file_.refuse("has two weight_maps");
  } else if (where_ == place::map) {
    name_ = std::move(name);
    if (out_.contains(name_))
      file_.refuse(concat({"names the tensor ", in_quotes(name_), " twice"}));
    if (out_.size() == most_tensors)
      file_.refuse(concat({"names more than ", most_tensors, " tensors"}));
  }
  return true;
}

PLAIT_DECL bool weights_index_parser::end_object() {
  if (where_ == place::foreign) return end_foreign();
  where_ = where_ == place::map ? place::index : place::outside;
  return true;
}

PLAIT_DECL bool weights_index_parser::value() const {
  if (where_ == place::outside) file_.refuse("is not an object");
  if (where_ == place::index && is_map_next_) file_.refuse("has a weight_map that is no object");
  if (where_ == place::map)
    file_.refuse(concat(
        {"has a weight_map that does not give tensor ", in_quotes(name_), " the name of a file"}));
  return true;
}

PLAIT_DECL bool weights_index_parser::begin_foreign() {
  value();
  where_ = place::foreign;
  ++foreign_depth_;
  return true;
}

PLAIT_DECL bool weights_index_parser::end_foreign() {
  if (--foreign_depth_ == 0) where_ = place::index;
  return true;
}

PLAIT_DECL weights_index read_weights_index(std::filesystem::path const& path) {
  open_file const file(path, "index");
  if (file.size() > most_header_bytes)
    file.name().refuse(
        concat({"has ", file.size(), " bytes; at most ", most_header_bytes, " are allowed"}));
  std::string text(file.size(), '\0');
  file.read(std::as_writable_bytes(std::span(text)), 0);
  return weights_index_parser::parse(text, file.name());
}

PLAIT_DECL std::string to_text(weights_index const& index, std::size_t bytes) {
  nlohmann::ordered_json out;
  out["metadata"]["total_size"] = bytes;
  out["weight_map"] = index;
  try {
    return concat({out.dump(2), "\n"});
  } catch (nlohmann::json::type_error const&) {
    throw input_error("an index of weights cannot be written: the name of a tensor is not UTF-8");
  }
}

}  // namespace plait::detail
