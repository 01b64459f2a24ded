// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "plait/core/file.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/io/json_events.hpp"

namespace plait::ext {

/// The begin of each part that a file has within its whole tensor, by the tensor's name.
using sharding_info = std::map<std::string, std::vector<std::size_t>, std::less<>>;

}  // namespace plait::ext

namespace plait::detail {

/// Reads {"NAME": {"saved_offsets": [r, c]}, ...}. Further keys of a tensor are skipped, as
/// PyTorch may add some one day.
class sharding_info_parser : public json_events<sharding_info_parser> {
 public:
  static sharding_info parse(std::string const& text, file_name const& file);

  bool other_value() { return value(); }
  bool refuse_text(std::size_t at) const;

  bool string(std::string&) { return value(); }

  bool number_unsigned(json::number_unsigned_t number);
  bool start_object(std::size_t);
  bool key(std::string& value);
  bool end_object();
  bool start_array(std::size_t);
  bool end_array();

 private:
  explicit sharding_info_parser(file_name const& file) : file_(file) {}

  [[noreturn]] void refuse(std::string const& what) const {
    file_.refuse_part("DCP_SHARDING_INFO", what);
  }
  [[noreturn]] void refuse_value() const;

  /// Whether the value that comes is another's than saved_offsets, or within such a value.
  [[nodiscard]] bool is_foreign() const { return foreign_next_ || foreign_depth_ > 0; }
  bool value();
  bool begin_foreign();
  bool end_foreign();

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
std::map<std::string, std::string> make_sharding_metadata(sharding_info const& info);

/// Returns what make_sharding_metadata wrote, read from a file's metadata; nothing if there is
/// none. Whether the tensors are those of the file is for the caller to see.
///
/// Errors: input_error that names `path`, for another version and all else that is not as written.
std::optional<sharding_info> parse_sharding_metadata(
    std::map<std::string, std::string> const& metadata, std::filesystem::path const& path);

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/io/sharding_info.ipp"
#endif
