// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plait/checkpoint/manifest.hpp"
#include "plait/core/file.hpp"
#include "plait/core/header_only.hpp"
#include "plait/io/json_events.hpp"

namespace plait::detail {

/// The value of lower-case hexadecimal digits, two for each byte; nothing if they are not that.
std::optional<std::vector<std::byte>> bytes_from_hex(std::string_view text);

std::string hex_from_bytes(std::span<std::byte const> bytes);

std::string hex_from_crc(std::uint32_t crc);

/// Reads the JSON of a manifest: known keys, each once, with values of their kind. The checks of
/// manifest_rules.hpp come after it.
///
/// Cost:   memory some times that of the text.
/// Errors: input_error, one sentence with the manifest's name and the key.
class manifest_parser : public json_events<manifest_parser> {
 public:
  /// `format`: 1 without ages, or 2 with them.
  static checkpoint_manifest parse(std::string const& text, std::uint64_t format,
                                   file_name const& file);

  bool other_value() { refuse_value(); }
  bool refuse_text(std::size_t at) const;

  bool number_unsigned(json::number_unsigned_t value);

  bool string(std::string& value);

  bool start_object(std::size_t);

  bool key(std::string& value);

  bool end_object();

  bool start_array(std::size_t);

  bool end_array();

 private:
  enum class place { outside, top, settings, ages, tensors, tensor, blocks, block, list };

  manifest_parser(std::uint64_t format, file_name const& file) : format_(format), file_(file) {}

  static constexpr std::array<std::string_view, 10> top_keys{
      "format", "job",     "step",   "samples", "settings",
      "extra",  "tensors", "blocks", "crc32",   "ages"};  // the last is not in format 1
  static constexpr std::array<std::string_view, 3> tensor_keys{"name", "type", "shape"};
  static constexpr std::array<std::string_view, 5> block_keys{"file", "tensor", "offset", "extent",
                                                              "crc32"};

  [[nodiscard]] std::span<std::string_view const> keys_here() const;
  /// Returns true if the keys here are names that the caller chose.
  [[nodiscard]] bool has_any_keys() const {
    return where_ == place::settings || where_ == place::ages;
  }
  unsigned& seen_here() { return where_ == place::top ? seen_at_top_ : seen_; }
  [[nodiscard]] bool is(place where, std::string_view key) const {
    return where_ == where && key_ == key;
  }
  [[noreturn]] void refuse_value() const;
  [[noreturn]] void refuse_many(char const* what, std::size_t most) const;

  std::uint64_t format_;
  file_name const& file_;
  checkpoint_manifest out_;
  place where_ = place::outside, list_place_ = place::outside;
  std::vector<std::size_t>* list_ = nullptr;
  std::string key_;
  unsigned seen_at_top_ = 0, seen_ = 0;  // a bit for each key of the object
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/manifest_parser.ipp"
#endif
