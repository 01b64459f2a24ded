// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/checkpoint/state_files.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "plait/checkpoint/checksum.hpp"
#include "plait/checkpoint/elements.hpp"
#include "plait/checkpoint/manifest_rules.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/file_kind.hpp"
#include "plait/io/safetensors.hpp"
#include "plait/io/sharding_info.hpp"

namespace plait::detail {

PLAIT_DECL void state_writer::write(std::filesystem::path const& folder) {
  write_kinds(folder / "weights", 0, 1);
  write_kinds(folder / optimizer_folder / "state", 1, of_.kinds.size());
}

PLAIT_DECL void state_writer::write_kinds(std::filesystem::path const& path, std::size_t begin,
                                          std::size_t end) {
  std::vector<std::vector<entry>> files;
  std::string last;
  // The index of a rectangle among the rectangles of its parameter. These rectangles follow each
  // other in the list.
  std::size_t same = 0;
  for (auto const& each : of_.rectangles) {
    same = each.name == last ? same + 1 : 0;
    last = each.name;
    if (each.is_alone && begin > 0) continue;
    if (files.size() <= same) files.resize(same + 1);
    for (std::size_t kind = begin; kind < end; ++kind)
      if (!of_.bytes[kind].empty() && !name_of({kind, &each}).empty())
        files[same].push_back({kind, &each});
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (files[i].empty()) continue;
    std::array<char, 48> number{};
    std::snprintf(number.data(), number.size(), "-%05d-%zu.safetensors", of_.rank, i);
    write_file(path.native() + number.data(), files[i]);
  }
}

PLAIT_DECL void state_writer::write_file(std::filesystem::path const& path,
                                         std::vector<entry> const& tensors) {
  std::vector<safetensors_entry> entries;
  sharding_info offsets;
  auto sums = nlohmann::ordered_json::object();
  for (auto const& tensor : tensors) {
    auto const& [kind, of] = tensor;
    auto const& where = of->where;
    auto const name = name_of(tensor);
    entries.push_back({name, type_in_files(of_.element_bytes[kind]),
                       sizes_of(of->info, where.rows, where.columns)});
    offsets[name] = sizes_of(of->info, where.row, where.column);
    sums[name] = checkpoint_crc(rows_of(kind, where));
  }
  auto metadata = make_sharding_metadata(offsets);
  metadata[crc_key] = sums.dump();
  safetensors_writer file(path, entries, metadata);
  for (auto const& tensor : tensors)
    file.write_bytes(name_of(tensor), rows_of(tensor.kind, tensor.of->where));
  file.commit();
}

PLAIT_DECL std::string state_writer::name_of(entry const& tensor) const {
  auto const& [kind, of] = tensor;
  auto const& suffix = (of->is_matrix ? of_.matrix_kinds : of_.kinds)[kind];
  return kind > 0 && suffix.empty() ? "" : of->name + suffix;
}

PLAIT_DECL std::span<std::byte const> state_writer::rows_of(std::size_t kind,
                                                            parameter_rectangle const& where) {
  std::size_t const each = of_.element_bytes[kind], row = where.columns * each;
  auto const from = std::span<std::byte const>(of_.bytes[kind]).subspan(where.place * each);
  if (where.rows == 1 || where.columns == where.stride) return from.first(where.rows * row);
  rows_.resize(where.rows * row);
  for (std::size_t i = 0; i < where.rows; ++i)
    std::ranges::copy(from.subspan(i * where.stride * each, row),
                      rows_.begin() + static_cast<std::ptrdiff_t>(i * row));
  return rows_;
}

PLAIT_DECL std::vector<checkpoint_block> blocks_in(std::filesystem::path const& folder) {
  std::vector<checkpoint_block> out;
  for (auto const& sub : {std::string(), concat({optimizer_folder, "/"})})
    for (auto const& found : std::filesystem::directory_iterator(folder / sub)) {
      if (found.path().extension() != ".safetensors") continue;
      safetensors_reader const file(found.path());
      auto const offsets = parse_sharding_metadata(file.metadata(), found.path());
      auto const text = file.metadata().find(crc_key);
      auto const sums = text == file.metadata().end()
                            ? nlohmann::json{}
                            : nlohmann::json::parse(text->second, nullptr, false);
      for (auto const& name : file.names()) {
        bool const is_known = offsets && offsets->contains(name) && sums.is_object() &&
                              sums.contains(name) && sums[name].is_number_unsigned();
        if (!is_known)
          throw input_error({"file ", path_in_quotes(found.path()),
                             " has no offsets or checksum for tensor ", in_quotes(name)});
        out.push_back({sub + found.path().filename().string(), name, offsets->at(name),
                       file.info(name).shape, sums[name].get<std::uint32_t>()});
      }
    }
  // The list is sorted because the order of a folder's entries is arbitrary.
  std::ranges::sort(out, [](auto const& a, auto const& b) {
    return a.tensor != b.tensor ? a.tensor < b.tensor : a.offset < b.offset;
  });
  return out;
}

}  // namespace plait::detail
