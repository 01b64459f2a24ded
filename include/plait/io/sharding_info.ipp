// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/io/sharding_info.hpp"

#include <nlohmann/json.hpp>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/file.hpp"
#include "plait/core/quote.hpp"
#include "plait/io/block.hpp"
#include "plait/io/json.hpp"
#include "plait/io/safetensors_header.hpp"

namespace plait::detail {

// Reads {"NAME": {"saved_offsets": [r, c]}, ...}, where r and c are the first row and column of the
// file's block. Other keys of a tensor are skipped, because PyTorch may add keys.
PLAIT_DECL sharding_info read_sharding_info(std::string const& text, file_name const& file) {
  std::string const part = "DCP_SHARDING_INFO";
  auto const info = read_json(text, most_sharding_bytes, file, part);
  auto const* const tensors = object_in(info);
  if (tensors == nullptr) file.refuse_part(part, "is not an object");
  sharding_info out;
  for (auto const& [name, value] : *tensors) {
    if (out.contains(name)) file.refuse_part(part, concat({"names ", in_quotes(name), " twice"}));
    if (out.size() == most_tensors)
      file.refuse_part(part, concat({"has more than ", most_tensors, " tensors"}));
    auto& offsets = out[name];
    std::size_t times = 0;
    bool fits = true;
    if (auto const* const fields = object_in(value))
      for (auto const& [key, field] : *fields)
        if (key == "saved_offsets") {
          ++times;
          fits = fits && take(field, offsets);
        }
    if (times != 1 || !fits)
      file.refuse_part(part, concat({"must list ", in_quotes(name),
                                     " with saved_offsets exactly once, as a list of up to ",
                                     most_dimensions, " positions"}));
  }
  return out;
}

}  // namespace plait::detail

namespace plait::ext {

PLAIT_DECL std::map<std::string, std::string> make_sharding_metadata(sharding_info const& info) {
  auto tensors = nlohmann::ordered_json::object();
  for (auto const& [name, offsets] : info) tensors[name] = {{"saved_offsets", offsets}};
  try {
    return {{"DCP_SHARDING_INFO", tensors.dump()}, {"DCP_VERSION", "1.0"}, {"format", "pt"}};
  } catch (nlohmann::json::type_error const&) {
    throw input_error("make_sharding_metadata: the name of a tensor is not UTF-8");
  }
}

PLAIT_DECL std::optional<sharding_info> parse_sharding_metadata(
    std::map<std::string, std::string> const& metadata, std::filesystem::path const& path) {
  auto const info = metadata.find("DCP_SHARDING_INFO");
  if (info == metadata.end()) return std::nullopt;
  detail::file_name const file("safetensors file", path);
  auto const version = metadata.find("DCP_VERSION");
  if (version == metadata.end() || version->second != "1.0")
    file.refuse(concat({"has the DCP_VERSION ",
                        (version == metadata.end() ? "''" : detail::in_quotes(version->second)),
                        ", not '1.0'"}));
  return detail::read_sharding_info(info->second, file);
}

}  // namespace plait::ext
