// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "plait/core/concat.hpp"
#include "plait/core/file.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/quote.hpp"
#include "plait/io/block.hpp"
#include "plait/io/json_events.hpp"
#include "plait/io/safetensors_header.hpp"

namespace plait::ext {

/// The begin of each part that a file has within its whole tensor, by the tensor's name.
using sharding_info = std::map<std::string, std::vector<std::size_t>, std::less<>>;

}  // namespace plait::ext

namespace plait::detail {

/// Reads {"NAME": {"saved_offsets": [r, c]}, ...}. Further keys of a tensor are skipped, as
/// PyTorch may add some one day.
class sharding_info_parser : public json_events<sharding_info_parser> {
 public:
  static sharding_info parse(std::string const& text, file_name const& file) {
    sharding_info_parser parser(file);
    parser.read(text);
    return std::move(parser.out_);
  }

  bool other_value() { return value(); }
  bool refuse_text(std::size_t at) const { refuse(concat({"is not JSON (at its byte ", at, ")"})); }

  bool string(std::string&) { return value(); }

  bool number_unsigned(json::number_unsigned_t number) {
    if (is_foreign()) return value();
    if (depth_ != 3 || offsets_.size() == most_dimensions) refuse_value();
    offsets_.push_back(static_cast<std::size_t>(number));
    return true;
  }
  bool start_object(std::size_t) {
    if (is_foreign()) return begin_foreign();
    if (depth_ > 1) refuse_value();
    ++depth_;
    has_offsets_ = false;
    return true;
  }
  bool key(std::string& value) {
    if (foreign_depth_ > 0) return true;
    if (depth_ == 1) {
      name_ = std::move(value);
      if (out_.contains(name_)) refuse(concat({"names ", in_quotes(name_), " twice"}));
      if (out_.size() == most_tensors) refuse(concat({"has more than ", most_tensors, " tensors"}));
    } else if (value != "saved_offsets") {
      foreign_next_ = true;
    } else if (std::exchange(has_offsets_, true)) {
      refuse_value();
    }
    return true;
  }
  bool end_object() {
    if (foreign_depth_ > 0) return end_foreign();
    if (depth_ == 2) {
      if (!has_offsets_) refuse_value();
      out_.emplace(std::move(name_), std::move(offsets_));
      offsets_.clear();
    }
    --depth_;
    return true;
  }
  bool start_array(std::size_t) {
    if (is_foreign()) return begin_foreign();
    if (depth_ != 2) refuse_value();
    ++depth_;
    return true;
  }
  bool end_array() {
    if (foreign_depth_ > 0) return end_foreign();
    --depth_;
    return true;
  }

 private:
  explicit sharding_info_parser(file_name const& file) : file_(file) {}

  [[noreturn]] void refuse(std::string const& what) const {
    file_.refuse_part("DCP_SHARDING_INFO", what);
  }
  [[noreturn]] void refuse_value() const {
    if (depth_ == 0) refuse("is not an object");
    refuse(concat({"must give ", in_quotes(name_), " saved_offsets once, a list of up to ",
                   most_dimensions, " positions"}));
  }

  /// Whether the value that comes is another's than saved_offsets, or within such a value.
  [[nodiscard]] bool is_foreign() const { return foreign_next_ || foreign_depth_ > 0; }
  bool value() {
    if (!is_foreign()) refuse_value();
    foreign_next_ = false;
    return true;
  }
  bool begin_foreign() {
    ++foreign_depth_;
    return value();
  }
  bool end_foreign() {
    --foreign_depth_;
    return true;
  }

  file_name const& file_;
  sharding_info out_;
  std::size_t depth_ = 0;  // 1: in the list of tensors, 2: in a tensor, 3: in its offsets
  bool has_offsets_ = false;
  bool foreign_next_ = false;      // the next value has a key that is not known
  std::size_t foreign_depth_ = 0;  // of lists and objects within such a value
  std::string name_;
  std::vector<std::size_t> offsets_;
};

}  // namespace plait::detail

namespace plait::ext {

/// The metadata of a safetensors file by which PyTorch's distributed checkpoint knows which part of
/// each tensor the file has.
///
/// Errors: input_error if a name is not UTF-8.
/// Source: torch/distributed/checkpoint/_hf_utils.py (DCP_VERSION 1.0).
inline std::map<std::string, std::string> make_sharding_metadata(sharding_info const& info) {
  auto tensors = nlohmann::ordered_json::object();
  for (auto const& [name, offsets] : info) tensors[name] = {{"saved_offsets", offsets}};
  try {
    return {{"DCP_SHARDING_INFO", tensors.dump()}, {"DCP_VERSION", "1.0"}, {"format", "pt"}};
  } catch (nlohmann::json::type_error const&) {
    throw input_error("make_sharding_metadata: the name of a tensor is not UTF-8");
  }
}

/// Returns what make_sharding_metadata wrote, read from a file's metadata; nothing if there is
/// none. Whether the tensors are those of the file is for the caller to see.
///
/// Errors: input_error that names `path`, for another version and all else that is not as written.
inline std::optional<sharding_info> parse_sharding_metadata(
    std::map<std::string, std::string> const& metadata, std::filesystem::path const& path) {
  auto const info = metadata.find("DCP_SHARDING_INFO");
  if (info == metadata.end()) return std::nullopt;
  detail::file_name const file("safetensors file", path);
  auto const version = metadata.find("DCP_VERSION");
  if (version == metadata.end() || version->second != "1.0")
    file.refuse(concat({"has the DCP_VERSION ",
                        (version == metadata.end() ? "''" : detail::in_quotes(version->second)),
                        ", not '1.0'"}));
  return detail::sharding_info_parser::parse(info->second, file);
}

}  // namespace plait::ext
