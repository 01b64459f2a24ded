// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/io/safetensors.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "plait/core/file_kind.hpp"

namespace plait::detail {

PLAIT_DECL float float_from_f16(std::uint16_t bits) {
  std::uint32_t const sign = (bits & 0x8000u) << 16;
  std::uint32_t const rest = bits & 0x7fffu;
  if (rest >= 0x7c00u)  // infinity or NaN
    return std::bit_cast<float>(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  if (rest >= 0x0400u) return std::bit_cast<float>(sign | ((rest << 13) + (112u << 23)));
  // This product is exact for zero and for subnormal numbers.
  float const small = static_cast<float>(rest) * 0x1p-24f;
  return sign != 0 ? -small : small;
}

}  // namespace plait::detail

namespace plait {

PLAIT_DECL safetensors_reader::safetensors_reader(std::filesystem::path const& path)
    : file_(path, "safetensors file") {
  auto const& name = file_.name();
  std::size_t const size = file_.size();
  if (size < 8) name.refuse(ext::concat({"has ", size, " bytes, too few for a header"}));
  std::uint64_t length = 0;
  file_.read(std::as_writable_bytes(std::span(&length, 1)), 0);
  // The first byte of the header, which must be '{'. The length alone proves little, because some
  // archives also begin with a small number.
  char begin = 0;
  if (size > 8) file_.read(std::as_writable_bytes(std::span(&begin, 1)), 8);
  if (length > size - 8 || (length > 0 && begin != '{'))
    detail::refuse_other_kind(file_, path.string(), detail::file_use::weights);
  if (length > size - 8)
    name.refuse(ext::concat(
        {"states that its header has ", length, " bytes, but only ", size - 8, " follow"}));
  if (length > detail::most_header_bytes)
    name.refuse(ext::concat({"has a header of ", length, " bytes; at most ",
                             detail::most_header_bytes, " are allowed"}));
  std::string header(static_cast<std::size_t>(length), '\0');
  file_.read(std::as_writable_bytes(std::span(header)), 8);
  data_begin_ = 8 + header.size();
  data_bytes_ = size - data_begin_;
  header_ = detail::parse_safetensors_header(header, data_bytes_, name);
  for (auto const& one : header_.tensors) names_.push_back(one.first);
  check_coverage();
}

PLAIT_DECL void safetensors_reader::expect_shape(std::string_view name,
                                                 std::span<std::size_t const> shape) const {
  auto const& found = info(name).shape;
  if (!has_shape(name, shape))
    refuse(name, ext::concat({"has the shape ", detail::shape_text(found), ", but ",
                              detail::shape_text(shape), " is needed"}));
}

PLAIT_DECL void safetensors_reader::read_bytes(std::string_view name, std::size_t at,
                                               std::span<std::byte> out) const {
  auto const& [entry, begin] = find(name);
  if (at > entry.bytes() || out.size() > entry.bytes() - at)
    refuse(name, ext::concat({"has ", entry.bytes(), " bytes, but ", out.size(), " from byte ", at,
                              " on are needed"}));
  file_.read(out, data_begin_ + begin + at);
}

PLAIT_DECL void safetensors_reader::refuse(std::string_view name, std::string const& what) const {
  file_.name().refuse_part(ext::concat({"tensor ", detail::in_quotes(name)}), what);
}

PLAIT_DECL safetensors_reader::tensor const& safetensors_reader::find(std::string_view name) const {
  auto const found = header_.tensors.find(name);
  if (found == header_.tensors.end())
    file_.name().refuse(ext::concat({"has no tensor ", detail::in_quotes(name)}));
  return found->second;
}

PLAIT_DECL void safetensors_reader::check_coverage() {
  auto const place = [&](std::string const& name) {
    auto const& found = header_.tensors.at(name);
    return std::pair(found.begin, found.begin + found.entry.bytes());
  };
  std::ranges::sort(names_, {}, place);
  std::size_t covered = 0;
  for (auto const& name : names_) {
    auto const [begin, end] = place(name);
    if (begin != covered)
      refuse(name, ext::concat({"begins at byte ", begin, " of the data, but the tensors ",
                                "before it end at ", covered}));
    covered = end;
  }
  if (covered != data_bytes_)
    file_.name().refuse(
        ext::concat({"has ", data_bytes_, " bytes of data, but its tensors end at ", covered}));
}

PLAIT_DECL safetensors_writer::safetensors_writer(
    std::filesystem::path const& path, std::span<safetensors_entry const> entries,
    std::map<std::string, std::string> const& metadata)
    : file_(path, "safetensors file"), header_(make_header(entries, metadata)) {
  file_.reserve(8 + header_.size() + data_bytes_);
  std::uint64_t const length = header_.size();
  file_.write(std::as_bytes(std::span(&length, 1)), 0);
  file_.write(std::as_bytes(std::span(header_)), 8);
}

PLAIT_DECL void safetensors_writer::write_bytes(std::string_view name,
                                                std::span<std::byte const> bytes) {
  auto const found = slots_.find(name);
  if (found == slots_.end())
    refuse(ext::concat({"has no tensor ", detail::in_quotes(name), " to write"}));
  auto& [entry, begin, written] = found->second;
  if (entry.bytes() != bytes.size())
    refuse(ext::concat({"needs ", entry.bytes(), " bytes for tensor ", detail::in_quotes(name),
                        ", given ", bytes.size()}));
  file_.write(bytes, 8 + header_.size() + begin);
  written = true;
}

PLAIT_DECL void safetensors_writer::commit() {
  for (auto const& [name, tensor] : slots_)
    if (!tensor.written && tensor.entry.elements() != 0)
      refuse(ext::concat(
          {"cannot be completed: tensor ", detail::in_quotes(name), " was not written"}));
  file_.commit();
}

PLAIT_DECL void safetensors_writer::refuse(safetensors_entry const& entry,
                                           std::string const& what) const {
  file_.name().refuse_part(ext::concat({"tensor ", detail::in_quotes(entry.name)}), what);
}

PLAIT_DECL std::string safetensors_writer::make_header(
    std::span<safetensors_entry const> entries,
    std::map<std::string, std::string> const& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (entries.size() > detail::most_tensors || metadata.size() > detail::most_metadata)
    refuse(ext::concat({"would have more than ", detail::most_tensors, " tensors or ",
                        detail::most_metadata, " metadata entries"}));
  if (!metadata.empty()) header["__metadata__"] = metadata;
  for (auto const& entry : entries) {
    if (std::ranges::find(written_types, entry.type) == written_types.end())
      refuse(entry, ext::concat({"is of type ", to_string(entry.type), ", not F64, F32 or BF16"}));
    if (entry.shape.size() > detail::most_dimensions)
      refuse(entry, ext::concat({"has a shape of more than ", detail::most_dimensions, " sizes"}));
    if (entry.name == "__metadata__" || !slots_.emplace(entry.name, slot{entry}).second)
      refuse(entry, "has the same name as another tensor");
  }
  std::size_t begin = 0;
  for (stored_type const type : written_types)
    for (auto const& entry : entries) {
      if (entry.type != type) continue;
      if (!detail::countable(entry) || entry.bytes() > most_data_bytes - begin)
        refuse(entry,
               ext::concat({"is too large, its shape is ", detail::shape_text(entry.shape)}));
      slots_.at(entry.name).begin = begin;
      std::size_t const end = begin + entry.bytes();
      header[entry.name] = {
          {"dtype", to_string(type)}, {"shape", entry.shape}, {"data_offsets", {begin, end}}};
      begin = end;
    }
  data_bytes_ = begin;
  std::string text;
  try {
    text = header.dump();
  } catch (nlohmann::json::type_error const&) {
    refuse("cannot be written: a name or a metadata entry is not UTF-8");
  }
  text.resize((text.size() + 7) / 8 * 8,
              ' ');  // padding, so that the data begins at a multiple of 8 bytes
  if (text.size() > detail::most_header_bytes)
    refuse(ext::concat({"would have a header of ", text.size(), " bytes; at most ",
                        detail::most_header_bytes, " are allowed"}));
  return text;
}

}  // namespace plait
