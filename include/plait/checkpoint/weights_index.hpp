// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "plait/checkpoint/manifest_rules.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/file.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/quote.hpp"
#include "plait/io/json_events.hpp"
#include "plait/io/safetensors_header.hpp"

// The index of weights in several files, as Hugging Face's transformers write it.
namespace plait::detail {

inline constexpr char const* weights_file = "model.safetensors";
inline constexpr char const* weights_index_file = "model.safetensors.index.json";

/// The file of each tensor.
using weights_index = std::map<std::string, std::string, std::less<>>;

/// Reads {"weight_map": {"TENSOR": "FILE", ...}}. What else an index says is skipped.
///
/// Cost: n log n for n tensors; memory some times that of the text.
class weights_index_parser : public json_events<weights_index_parser> {
 public:
  /// Errors: input_error, one sentence with the index's name, for all that is not one; also if a
  ///         tensor is named twice, or in a file that is not in the index's folder.
  static weights_index parse(std::string const& text, file_name const& file) {
    weights_index_parser parser(file);
    parser.read(text);
    if (!parser.has_map_)
      file.refuse("has no weight_map, which says for each tensor in which file it is");
    if (parser.out_.empty()) file.refuse("names no tensor");
    return std::move(parser.out_);
  }

  bool other_value() { return value(); }
  bool refuse_text(std::size_t at) const {
    file_.refuse(concat({"is not JSON (at its byte ", at, ")"}));
  }
  bool number_unsigned(json::number_unsigned_t) { return value(); }
  bool string(std::string& text) {
    if (where_ != place::map) return value();
    if (text.find('/') != std::string::npos || !is_plain_file_name(text))
      file_.refuse(concat(
          {"says that tensor ", in_quotes(name_), " is in ", in_quotes(text),
           ", which is not the name of a file in its folder, of letters, digits and . _ -"}));
    out_.emplace(std::move(name_), std::move(text));
    return true;
  }
  bool start_object(std::size_t) {
    if (where_ == place::outside) where_ = place::index;
    else if (where_ == place::index && is_map_next_) where_ = place::map;
    else return begin_foreign();
    return true;
  }
  bool key(std::string& name) {
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
  bool end_object() {
    if (where_ == place::foreign) return end_foreign();
    where_ = where_ == place::map ? place::index : place::outside;
    return true;
  }
  bool start_array(std::size_t) { return begin_foreign(); }
  bool end_array() { return end_foreign(); }

 private:
  enum class place { outside, index, map, foreign };

  explicit weights_index_parser(file_name const& file) : file_(file) {}

  /// A value that is none of a map.
  bool value() const {
    if (where_ == place::outside) file_.refuse("is not an object");
    if (where_ == place::index && is_map_next_) file_.refuse("has a weight_map that is no object");
    if (where_ == place::map)
      file_.refuse(concat({"has a weight_map that does not give tensor ", in_quotes(name_),
                           " the name of a file"}));
    return true;
  }
  bool begin_foreign() {
    value();
    where_ = place::foreign;
    ++foreign_depth_;
    return true;
  }
  bool end_foreign() {
    if (--foreign_depth_ == 0) where_ = place::index;
    return true;
  }

  file_name const& file_;
  weights_index out_;
  place where_ = place::outside;
  bool is_map_next_ = false, has_map_ = false;
  std::size_t foreign_depth_ = 0;  // of lists and objects within what is skipped
  std::string name_;
};

/// Errors: as weights_index_parser::parse, and as open_file.
[[nodiscard]] [[gnu::cold]] inline weights_index read_weights_index(
    std::filesystem::path const& path) {
  open_file const file(path, "index");
  if (file.size() > most_header_bytes)
    file.name().refuse(
        concat({"has ", file.size(), " bytes; at most ", most_header_bytes, " are allowed"}));
  std::string text(file.size(), '\0');
  file.read(std::as_writable_bytes(std::span(text)), 0);
  return weights_index_parser::parse(text, file.name());
}

/// The text of an index. `bytes`: of the data of all tensors.
///
/// Errors: input_error if the name of a tensor is not UTF-8.
[[nodiscard]] [[gnu::cold]] inline std::string to_text(weights_index const& index,
                                                       std::size_t bytes) {
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
