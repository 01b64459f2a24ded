// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "plait/core/file.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/io/json_events.hpp"

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
  static weights_index parse(std::string const& text, file_name const& file);

  bool other_value() { return value(); }
  bool refuse_text(std::size_t at) const;
  bool number_unsigned(json::number_unsigned_t) { return value(); }
  bool string(std::string& text);
  bool start_object(std::size_t);
  bool key(std::string& name);
  bool end_object();
  bool start_array(std::size_t) { return begin_foreign(); }
  bool end_array() { return end_foreign(); }

 private:
  enum class place { outside, index, map, foreign };

  explicit weights_index_parser(file_name const& file) : file_(file) {}

  /// A value that is none of a map.
  bool value() const;
  bool begin_foreign();
  bool end_foreign();

  file_name const& file_;
  weights_index out_;
  place where_ = place::outside;
  bool is_map_next_ = false, has_map_ = false;
  std::size_t foreign_depth_ = 0;  // of lists and objects within what is skipped
  std::string name_;
};

/// Errors: as weights_index_parser::parse, and as open_file.
[[nodiscard]] [[gnu::cold]] weights_index read_weights_index(std::filesystem::path const& path);

/// The text of an index. `bytes`: of the data of all tensors.
///
/// Errors: input_error if the name of a tensor is not UTF-8.
[[nodiscard]] [[gnu::cold]] std::string to_text(weights_index const& index, std::size_t bytes);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/weights_index.ipp"
#endif
