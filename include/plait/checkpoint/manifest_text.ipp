// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/checkpoint/manifest_text.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "plait/checkpoint/manifest_parser.hpp"
#include "plait/core/concat.hpp"

namespace plait::detail {

PLAIT_DECL std::string manifest_tail(std::uint32_t crc) {
  return concat({",\n\"crc32\": \"", hex_from_crc(crc), "\"\n}\n"});
}

}  // namespace plait::detail

namespace plait::ext {

PLAIT_DECL std::string to_text(checkpoint_manifest const& manifest,
                               std::filesystem::path const& path) {
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

PLAIT_DECL checkpoint_manifest parse_manifest(std::string const& text,
                                              std::filesystem::path const& path) {
  auto const file = detail::manifest_name(path);
  if (text.size() > detail::most_manifest_bytes)
    file.refuse(concat(
        {"has ", text.size(), " bytes; at most ", detail::most_manifest_bytes, " are allowed"}));
  std::uint64_t format = 0;
  if (text.starts_with(detail::manifest_head))
    std::from_chars(text.data() + detail::manifest_head.size(), text.data() + text.size(), format);
  if (format == 0) file.refuse("does not begin with the first line of a plait manifest");

  std::string_view const all = text;
  std::size_t const tail = std::min(all.size(), detail::manifest_tail(0).size());
  auto const crc = detail::crc_of_text(all.substr(0, all.size() - tail));
  bool const intact = all.ends_with(detail::manifest_tail(crc));
  // The end of the text is compared before the CRC is read, because a newer format may end
  // differently.
  bool const ends_as_ours = all.ends_with("\"\n}\n");
  if (format > detail::newest_format && (intact || !ends_as_ours))
    file.refuse(
        concat({"has format ", format, ", but this version of plait reads only formats 1 to ",
                detail::newest_format, "; use a newer plait"}));
  if (!intact)
    file.refuse(concat({"is damaged: it does not end with the checksum ", detail::hex_from_crc(crc),
                        " of the preceding text"}));
  auto manifest = detail::read_manifest_json(text, format, file);
  detail::check_manifest(manifest, file);
  return manifest;
}

PLAIT_DECL checkpoint_manifest read_manifest(std::filesystem::path const& folder,
                                             detail::disk& on) {
  auto const path = folder / detail::manifest_file;
  return parse_manifest(on.read_file(path, detail::most_manifest_bytes, detail::manifest_kind),
                        path);
}

}  // namespace plait::ext
