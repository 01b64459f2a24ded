// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include <nlohmann/json.hpp>

#include "plait/checkpoint/checksum.hpp"
#include "plait/checkpoint/disk.hpp"
#include "plait/checkpoint/manifest.hpp"
#include "plait/checkpoint/manifest_parser.hpp"
#include "plait/checkpoint/manifest_rules.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/file.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::detail {

inline constexpr std::string_view manifest_head = "{\n\"format\": ";

// The end of a manifest whose text before it has this checksum.
inline std::string manifest_tail(std::uint32_t crc) {
  return concat({",\n\"crc32\": \"", hex_from_crc(crc), "\"\n}\n"});
}

inline std::uint32_t crc_of_text(std::string_view text) {
  return checkpoint_crc(std::as_bytes(std::span(text)));
}

/// Returns the oldest format that can hold all of a manifest.
inline int format_of(checkpoint_manifest const& manifest) { return manifest.ages.empty() ? 1 : 2; }
inline constexpr std::uint64_t newest_format = 2;

inline constexpr char const* manifest_kind = "checkpoint manifest";

inline file_name manifest_name(std::filesystem::path const& path) { return {manifest_kind, path}; }

}  // namespace plait::detail

namespace plait::ext {

/// A manifest as the text of plait.json: JSON with a line for each tensor and block, and at its end
/// a CRC-32 of all before. Equal manifests have equal texts. The format is 1, or 2 if there are
/// ages, which readers of format 1 do not know.
///
/// Errors: input_error that names `path`, if the manifest breaks a rule that parse_manifest checks.
/// Cost:   as parse_manifest.
inline std::string to_text(checkpoint_manifest const& manifest,
                           std::filesystem::path const& path = detail::manifest_file) {
  using json = nlohmann::ordered_json;
  auto const file = detail::manifest_name(path);
  detail::check_manifest(manifest, file);
  std::string out(detail::manifest_head);
  auto const lines = [&out](auto const& list, auto const& line_of) {
    char const* before = "[\n";
    if (list.empty()) out += "[";
    for (auto const& one : list) {
      out += before + line_of(one).dump();
      before = ",\n";
    }
    out += "]";
  };
  try {
    auto settings = json::object();
    for (auto const& [name, value] : manifest.settings) settings[name] = value;
    out += concat({detail::format_of(manifest), ",\n\"job\": ", json(manifest.job).dump()});
    out += concat({",\n\"step\": ", manifest.step});
    out += concat({",\n\"samples\": ", manifest.samples});
    out += concat({",\n\"settings\": ", settings.dump(0)});
    out += concat({",\n\"extra\": \"", detail::hex_from_bytes(manifest.extra)});
    out += "\"";
    if (!manifest.ages.empty()) {
      auto ages = json::object();
      for (auto const& [name, age] : manifest.ages) ages[name] = age;
      out += concat({",\n\"ages\": ", ages.dump(0)});
    }
    out += ",\n\"tensors\": ";
    lines(manifest.tensors, [](checkpoint_tensor const& one) {
      return json{{"name", one.name}, {"type", one.type}, {"shape", one.shape}};
    });
    out += ",\n\"blocks\": ";
    lines(manifest.blocks, [](checkpoint_block const& one) {
      return json{{"file", one.file},
                  {"tensor", one.tensor},
                  {"offset", one.offset},
                  {"extent", one.extent},
                  {"crc32", detail::hex_from_crc(one.crc)}};
    });
  } catch (nlohmann::json::type_error const&) {
    file.refuse("cannot be written: a name or a setting is not UTF-8");
  }
  out += detail::manifest_tail(detail::crc_of_text(out));
  if (out.size() > detail::most_manifest_bytes)
    file.refuse(concat({"would have ", out.size(), " bytes; at most ", detail::most_manifest_bytes,
                        " are allowed"}));
  return out;
}

/// Reads what to_text wrote. Nothing else is taken: a checksum that is another, keys that are not
/// known, names given twice, blocks outside their tensors or that do not cover them exactly once,
/// names of files that lead out of the folder.
///
/// Cost:   n log n in tensors and blocks; memory some times that of the text.
/// Errors: input_error, one sentence that names `path`.
inline checkpoint_manifest parse_manifest(
    std::string const& text, std::filesystem::path const& path = detail::manifest_file) {
  auto const file = detail::manifest_name(path);
  if (text.size() > detail::most_manifest_bytes)
    file.refuse(concat(
        {"has ", text.size(), " bytes; at most ", detail::most_manifest_bytes, " are allowed"}));
  std::uint64_t format = 0;
  if (text.starts_with(detail::manifest_head))
    std::from_chars(text.data() + detail::manifest_head.size(), text.data() + text.size(), format);
  if (format == 0) file.refuse("does not begin as a manifest of plait");

  std::string_view const all = text;
  std::size_t const tail = std::min(all.size(), detail::manifest_tail(0).size());
  auto const crc = detail::crc_of_text(all.substr(0, all.size() - tail));
  bool const intact = all.ends_with(detail::manifest_tail(crc));
  // A newer format may end in another way.
  bool const ends_as_ours = all.ends_with("\"\n}\n");
  if (format > detail::newest_format && (intact || !ends_as_ours))
    file.refuse(concat({"has format ", format, ", this version of plait reads formats 1 to ",
                        detail::newest_format, "; use a newer plait"}));
  if (!intact)
    file.refuse(concat({"is damaged: it does not end in the checksum ", detail::hex_from_crc(crc),
                        " of what is before"}));
  auto manifest = detail::manifest_parser::parse(text, format, file);
  detail::check_manifest(manifest, file);
  return manifest;
}

/// Reads the file plait.json of a checkpoint's folder.
///
/// Errors: as parse_manifest; input_error if it cannot be read or is no regular file.
inline checkpoint_manifest read_manifest(std::filesystem::path const& folder,
                                         detail::disk& on = detail::the_disk()) {
  auto const path = folder / detail::manifest_file;
  return parse_manifest(on.read_file(path, detail::most_manifest_bytes, detail::manifest_kind),
                        path);
}

}  // namespace plait::ext
