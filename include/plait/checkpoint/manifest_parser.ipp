// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/checkpoint/manifest_parser.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "plait/checkpoint/manifest_rules.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"
#include "plait/io/json.hpp"
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

PLAIT_DECL bool take_hex(json_value const& value, std::vector<std::byte>& out) {
  std::string text;
  auto bytes = take(value, text) ? bytes_from_hex(text) : std::nullopt;
  if (bytes) out = std::move(*bytes);
  return bytes.has_value();
}

PLAIT_DECL bool take_crc(json_value const& value, std::uint32_t& out) {
  std::vector<std::byte> bytes;
  if (!take_hex(value, bytes) || bytes.size() != 4) return false;
  for (std::byte const one : bytes) out = out << 8 | static_cast<std::uint32_t>(one);
  return true;
}

// Reads the members of a manifest from its JSON, in the order of the text.
class manifest_reader {
 public:
  explicit manifest_reader(file_name const& file) : file_(file) {}

  [[nodiscard]] checkpoint_manifest read(json_value const& json, std::uint64_t format) const {
    static constexpr std::array<std::string_view, 10> keys{
        "format", "job",     "step",   "samples", "settings",
        "extra",  "tensors", "blocks", "crc32",   "ages"};  // "ages" is not a key of format 1
    auto const* const members = object_in(json);
    if (members == nullptr) file_.refuse("is not a JSON object");
    checkpoint_manifest out;
    read_members(*members, std::span(keys).first(keys.size() - (format == 1 ? 1 : 0)), "no",
                 [&](std::string const& key, json_value const& value) {
                   std::uint64_t number = 0;
                   std::string crc;  // read but not used: the caller has already compared it
                   if (key == "settings")
                     return read_pairs(key, value, most_settings, out.settings);
                   if (key == "ages") return read_pairs(key, value, most_tensors, out.ages);
                   if (key == "tensors") return read_tensors(key, value, out.tensors);
                   if (key == "blocks") return read_blocks(key, value, out.blocks);
                   if (key == "format") return take(value, number) && number == format;
                   if (key == "job") return take(value, out.job);
                   if (key == "step") return take(value, out.step);
                   if (key == "samples") return take(value, out.samples);
                   return key == "extra" ? take_hex(value, out.extra) : take(value, crc);
                 });
    return out;
  }

 private:
  static constexpr std::array<std::string_view, 3> tensor_keys{"name", "type", "shape"};
  static constexpr std::array<std::string_view, 5> block_keys{"file", "tensor", "offset", "extent",
                                                              "crc32"};

  [[noreturn]] void refuse_value(std::string const& key) const {
    file_.refuse(concat({"has an invalid value for the key ", in_quotes(key)}));
  }

  // Calls read(key, value) for each member of an object, which must have each of `keys` once. read
  // returns false for an invalid value.
  template <class Read>
  void read_members(json_object const& members, std::span<std::string_view const> keys,
                    char const* lacks, Read read) const {
    std::vector<bool> seen(keys.size());
    for (auto const& [key, value] : members) {
      auto const known = std::ranges::find(keys, key);
      if (known == keys.end()) file_.refuse(concat({"has the unknown key ", in_quotes(key)}));
      auto const number = static_cast<std::size_t>(known - keys.begin());
      if (seen[number]) file_.refuse(concat({"has the key ", in_quotes(key), " twice"}));
      seen[number] = true;
      if (!read(key, value)) refuse_value(key);
    }
    for (std::size_t i = 0; i < keys.size(); ++i)
      if (!seen[i]) file_.refuse(concat({"has ", lacks, " key '", keys[i], "'"}));
  }

  // Reads an object whose keys were chosen by the program, as pairs of key and value. Repeated keys
  // are not detected here but by the functions of manifest_rules.hpp.
  template <class Value>
  bool read_pairs(std::string const& key, json_value const& value, std::size_t most,
                  std::vector<std::pair<std::string, Value>>& out) const {
    auto const* const members = object_in(value);
    if (members == nullptr) return false;
    for (auto const& [name, one] : *members) {
      Value taken{};
      if (!take(one, taken)) refuse_value(name);
      if (out.size() == most) refuse_many(key, most);
      out.emplace_back(name, std::move(taken));
    }
    return true;
  }

  bool read_tensors(std::string const& key, json_value const& value,
                    std::vector<checkpoint_tensor>& out) const {
    return read_list(key, value, most_tensors, out, [&](auto const& members, auto& tensor) {
      read_members(members, tensor_keys, "a tensor without the",
                   [&tensor](std::string const& field, json_value const& of) {
                     if (field == "shape") return take(of, tensor.shape);
                     return take(of, field == "name" ? tensor.name : tensor.type);
                   });
    });
  }

  bool read_blocks(std::string const& key, json_value const& value,
                   std::vector<checkpoint_block>& out) const {
    return read_list(key, value, most_blocks, out, [&](auto const& members, auto& block) {
      read_members(members, block_keys, "a block without the",
                   [&block](std::string const& field, json_value const& of) {
                     if (field == "crc32") return take_crc(of, block.crc);
                     if (field == "offset") return take(of, block.offset);
                     if (field == "extent") return take(of, block.extent);
                     return take(of, field == "file" ? block.file : block.tensor);
                   });
    });
  }

  // Reads a list of objects. For each object it calls read(members, one), which fills the element
  // `one` of the result.
  template <class One, class Read>
  bool read_list(std::string const& key, json_value const& value, std::size_t most,
                 std::vector<One>& out, Read read) const {
    auto const* const list = list_in(value);
    if (list == nullptr) return false;
    for (auto const& one : *list) {
      auto const* const members = object_in(one);
      if (members == nullptr) return false;
      if (out.size() == most) refuse_many(key, most);
      read(*members, out.emplace_back());
    }
    return true;
  }

  [[noreturn]] void refuse_many(std::string const& key, std::size_t most) const {
    file_.refuse(concat({"has more than ", most, " ", key}));
  }

  file_name const& file_;
};

PLAIT_DECL checkpoint_manifest read_manifest_json(std::string const& text, std::uint64_t format,
                                                  file_name const& file) {
  return manifest_reader(file).read(read_json(text, most_manifest_bytes, file), format);
}

}  // namespace plait::detail
