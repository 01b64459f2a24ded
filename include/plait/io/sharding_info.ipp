// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/io/sharding_info.hpp"

#include <utility>

#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"
#include "plait/io/block.hpp"
#include "plait/io/safetensors_header.hpp"

namespace plait::detail {

PLAIT_DECL sharding_info sharding_info_parser::parse(std::string const& text,
                                                     file_name const& file) {
  sharding_info_parser parser(file);
  parser.read(text);
  return std::move(parser.out_);
}

PLAIT_DECL bool sharding_info_parser::refuse_text(std::size_t at) const {
  refuse(concat({"is not JSON (at its byte ", at, ")"}));
}

PLAIT_DECL bool sharding_info_parser::number_unsigned(json::number_unsigned_t number) {
  if (is_foreign()) return value();
  if (depth_ != 3 || offsets_.size() == most_dimensions) refuse_value();
  offsets_.push_back(static_cast<std::size_t>(number));
  return true;
}

PLAIT_DECL bool sharding_info_parser::start_object(std::size_t) {
  if (is_foreign()) return begin_foreign();
  if (depth_ > 1) refuse_value();
  ++depth_;
  has_offsets_ = false;
  return true;
}

PLAIT_DECL bool sharding_info_parser::key(std::string& value) {
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

PLAIT_DECL bool sharding_info_parser::end_object() {
  if (foreign_depth_ > 0) return end_foreign();
  if (depth_ == 2) {
    if (!has_offsets_) refuse_value();
    out_.emplace(std::move(name_), std::move(offsets_));
    offsets_.clear();
  }
  --depth_;
  return true;
}

PLAIT_DECL bool sharding_info_parser::start_array(std::size_t) {
  if (is_foreign()) return begin_foreign();
  if (depth_ != 2) refuse_value();
  ++depth_;
  return true;
}

PLAIT_DECL bool sharding_info_parser::end_array() {
  if (foreign_depth_ > 0) return end_foreign();
  --depth_;
  return true;
}

PLAIT_DECL void sharding_info_parser::refuse_value() const {
  if (depth_ == 0) refuse("is not an object");
  refuse(concat({"must give ", in_quotes(name_), " saved_offsets once, a list of up to ",
                 most_dimensions, " positions"}));
}

PLAIT_DECL bool sharding_info_parser::value() {
  if (!is_foreign()) refuse_value();
  foreign_next_ = false;
  return true;
}

PLAIT_DECL bool sharding_info_parser::begin_foreign() {
  ++foreign_depth_;
  return value();
}

PLAIT_DECL bool sharding_info_parser::end_foreign() {
  --foreign_depth_;
  return true;
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
  return detail::sharding_info_parser::parse(info->second, file);
}

}  // namespace plait::ext
