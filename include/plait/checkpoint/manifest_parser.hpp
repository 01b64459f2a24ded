// SPDX-License-Identifier: Apache-2.0
#pragma once

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

namespace plait::detail {

/// Decodes lower-case hexadecimal digits, two for each byte; returns nullopt for other texts.
std::optional<std::vector<std::byte>> bytes_from_hex(std::string_view text);

std::string hex_from_bytes(std::span<std::byte const> bytes);

std::string hex_from_crc(std::uint32_t crc);

/// Reads the JSON of a manifest: each known key must appear exactly once, with a value of the right
/// type. The caller then checks the result with the functions of manifest_rules.hpp. `format`: 1
/// for a manifest without `ages`, 2 for a manifest with `ages`.
///
/// Cost:   the memory that read_json needs.
/// Errors: input_error, one sentence with the manifest's name and the key.
checkpoint_manifest read_manifest_json(std::string const& text, std::uint64_t format,
                                       file_name const& file);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/manifest_parser.ipp"
#endif
