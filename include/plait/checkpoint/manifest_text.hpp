// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "plait/checkpoint/checksum.hpp"
#include "plait/checkpoint/disk.hpp"
#include "plait/checkpoint/manifest.hpp"
#include "plait/checkpoint/manifest_rules.hpp"
#include "plait/core/file.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::detail {

inline constexpr std::string_view manifest_head = "{\n\"format\": ";

// Returns the last lines of a manifest; `crc` is the checksum of the text that precedes them.
std::string manifest_tail(std::uint32_t crc);

inline std::uint32_t crc_of_text(std::string_view text) {
  return checkpoint_crc(std::as_bytes(std::span(text)));
}

/// Returns the number of the oldest format that can contain all data of a manifest.
inline int format_of(checkpoint_manifest const& manifest) { return manifest.ages.empty() ? 1 : 2; }
inline constexpr std::uint64_t newest_format = 2;

inline constexpr char const* manifest_kind = "checkpoint manifest";

inline file_name manifest_name(std::filesystem::path const& path) { return {manifest_kind, path}; }

}  // namespace plait::detail

namespace plait::ext {

/// Returns a manifest as the text of plait.json: JSON with a line for each tensor and block and, at
/// its end, a CRC-32 of all preceding text. Equal manifests have equal texts. The format is 1, or 2
/// if there are ages, because readers of format 1 do not know ages.
///
/// Errors: input_error that names `path`, if the manifest breaks a rule that parse_manifest checks.
/// Cost:   the cost of parse_manifest.
std::string to_text(checkpoint_manifest const& manifest,
                    std::filesystem::path const& path = detail::manifest_file);

/// Parses a text that to_text has written. Refuses every other text, for example a text with a
/// wrong checksum, unknown keys, repeated names, blocks that are outside of their tensors or do not
/// cover them exactly once, or names of files outside of the folder.
///
/// Cost:   O(n log n) for n tensors and blocks; memory several times the size of the text.
/// Errors: input_error, one sentence that names `path`.
checkpoint_manifest parse_manifest(std::string const& text,
                                   std::filesystem::path const& path = detail::manifest_file);

/// Reads the file plait.json of a checkpoint's folder.
///
/// Errors: the errors of parse_manifest; input_error if the file cannot be read or is not a regular
///         file.
checkpoint_manifest read_manifest(std::filesystem::path const& folder,
                                  detail::disk& on = detail::the_disk());

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/manifest_text.ipp"
#endif
