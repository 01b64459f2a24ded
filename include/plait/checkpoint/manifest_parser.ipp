// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/checkpoint/manifest_parser.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "plait/checkpoint/manifest_rules.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"
#include "plait/io/block.hpp"
#include "plait/io/safetensors_header.hpp"

namespace plait::detail {

PLAIT_DECL std::optional<std::vector<std::byte>> bytes_from_hex(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  if (text.size() % 2 != 0) return std::nullopt;
  std::vector<std::byte> out(text.size() / 2);
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto const digit = digits.find(text[i]);
    if (digit == std::string_view::npos) return std::nullopt;
    out[i / 2] = out[i / 2] << 4 | static_cast<std::byte>(digit);
  }
  return out;
}

PLAIT_DECL std::string hex_from_bytes(std::span<std::byte const> bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  out.reserve(2 * bytes.size());
  for (std::byte const one : bytes)
    out += {digits[static_cast<std::size_t>(one >> 4)], digits[static_cast<std::size_t>(one) & 15]};
  return out;
}

PLAIT_DECL std::string hex_from_crc(std::uint32_t crc) {
  std::array<std::byte, 4> bytes{};
  for (std::size_t i = 0; i < 4; ++i) bytes[i] = static_cast<std::byte>(crc >> (24 - 8 * i));
  return hex_from_bytes(bytes);
}

PLAIT_DECL checkpoint_manifest manifest_parser::parse(std::string const& text, std::uint64_t format,
                                                      file_name const& file) {
  manifest_parser parser(format, file);
  parser.read(text);
  return std::move(parser.out_);
}

PLAIT_DECL bool manifest_parser::refuse_text(std::size_t at) const {
  file_.refuse(concat({"is not JSON (at its byte ", at, ")"}));
}

PLAIT_DECL bool manifest_parser::number_unsigned(json::number_unsigned_t value) {
  if (where_ == place::list) {
    if (list_->size() == most_dimensions) refuse_value();
    list_->push_back(static_cast<std::size_t>(value));
  } else if (is(place::top, "format")) {
    if (value != format_) refuse_value();
  } else if (is(place::top, "step")) {
    if (value > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) refuse_value();
    out_.step = static_cast<std::int64_t>(value);
  } else if (is(place::top, "samples")) {
    out_.samples = value;
  } else if (where_ == place::ages) {
    if (value > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) refuse_value();
    if (out_.ages.size() == most_tensors) refuse_many("ages", most_tensors);
    out_.ages.emplace_back(key_, static_cast<std::int64_t>(value));
  } else {
    refuse_value();
  }
  return true;
}

PLAIT_DECL bool manifest_parser::string(std::string& value) {
  if (where_ == place::settings) {
    if (out_.settings.size() == most_settings) refuse_many("settings", most_settings);
    out_.settings.emplace_back(key_, std::move(value));
  } else if (is(place::top, "job")) {
    out_.job = std::move(value);
  } else if (is(place::top, "extra")) {
    auto bytes = bytes_from_hex(value);
    if (!bytes) refuse_value();
    out_.extra = std::move(*bytes);
  } else if (is(place::tensor, "name")) {
    out_.tensors.back().name = std::move(value);
  } else if (is(place::tensor, "type")) {
    out_.tensors.back().type = std::move(value);
  } else if (is(place::block, "file")) {
    out_.blocks.back().file = std::move(value);
  } else if (is(place::block, "tensor")) {
    out_.blocks.back().tensor = std::move(value);
  } else if (is(place::block, "crc32")) {
    auto const bytes = bytes_from_hex(value);
    if (!bytes || bytes->size() != 4) refuse_value();
    for (std::byte const one : *bytes)
      out_.blocks.back().crc = out_.blocks.back().crc << 8 | static_cast<std::uint32_t>(one);
  } else if (!is(place::top, "crc32")) {  // that one was compared before
    refuse_value();
  }
  return true;
}

PLAIT_DECL bool manifest_parser::start_object(std::size_t) {
  if (where_ == place::outside) {
    where_ = place::top;
  } else if (is(place::top, "settings")) {
    where_ = place::settings;
  } else if (is(place::top, "ages")) {
    where_ = place::ages;
  } else if (where_ == place::tensors) {
    if (out_.tensors.size() == most_tensors) refuse_many("tensors", most_tensors);
    out_.tensors.emplace_back();
    where_ = place::tensor;
  } else if (where_ == place::blocks) {
    if (out_.blocks.size() == most_blocks) refuse_many("blocks", most_blocks);
    out_.blocks.emplace_back();
    where_ = place::block;
  } else {
    refuse_value();
  }
  seen_here() = 0;
  return true;
}

PLAIT_DECL bool manifest_parser::key(std::string& value) {
  key_ = std::move(value);
  if (has_any_keys()) return true;
  auto const keys = keys_here();
  auto const known = std::ranges::find(keys, key_);
  if (known == keys.end()) file_.refuse(concat({"has the unknown key ", in_quotes(key_)}));
  unsigned const bit = 1u << (known - keys.begin());
  if ((seen_here() & bit) != 0) file_.refuse(concat({"has the key ", in_quotes(key_), " twice"}));
  seen_here() |= bit;
  return true;
}

PLAIT_DECL bool manifest_parser::end_object() {
  if (!has_any_keys()) {
    auto const keys = keys_here();
    for (std::size_t i = 0; i < keys.size(); ++i)
      if ((seen_here() >> i & 1u) == 0)
        file_.refuse(concat({"has ",
                             where_ == place::top      ? "no"
                             : where_ == place::tensor ? "a tensor without the"
                                                       : "a block without the",
                             " key '", keys[i], "'"}));
  }
  where_ = where_ == place::tensor  ? place::tensors
           : where_ == place::block ? place::blocks
           : where_ == place::top   ? place::outside
                                    : place::top;
  return true;
}

PLAIT_DECL bool manifest_parser::start_array(std::size_t) {
  list_place_ = where_;
  list_ = is(place::tensor, "shape")   ? &out_.tensors.back().shape
          : is(place::block, "offset") ? &out_.blocks.back().offset
          : is(place::block, "extent") ? &out_.blocks.back().extent
                                       : nullptr;
  if (list_ != nullptr) where_ = place::list;
  else if (is(place::top, "tensors")) where_ = place::tensors;
  else if (is(place::top, "blocks")) where_ = place::blocks;
  else refuse_value();
  return true;
}

PLAIT_DECL bool manifest_parser::end_array() {
  where_ = where_ == place::list ? list_place_ : place::top;
  return true;
}

PLAIT_DECL std::span<std::string_view const> manifest_parser::keys_here() const {
  if (where_ == place::top)
    return std::span(top_keys).first(top_keys.size() - (format_ == 1 ? 1 : 0));
  if (where_ == place::tensor) return tensor_keys;
  return block_keys;
}

PLAIT_DECL void manifest_parser::refuse_value() const {
  if (where_ == place::outside) file_.refuse("is not a JSON object");
  file_.refuse(concat({"has a value that cannot be that of the key ", in_quotes(key_)}));
}

PLAIT_DECL void manifest_parser::refuse_many(char const* what, std::size_t most) const {
  file_.refuse(concat({"has more than ", most, " ", what}));
}

}  // namespace plait::detail
