// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/checkpoint/gguf_file.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail {

static_assert(std::endian::native == std::endian::little,
              "plait/checkpoint/gguf_file.hpp: GGUF files are little-endian and this machine is "
              "not; it needs conversions that plait does not have");

PLAIT_DECL std::uint16_t f16_from_float(float value) {
  auto const word = std::bit_cast<std::uint32_t>(value);
  std::uint32_t const sign = word >> 16 & 0x8000u;
  std::uint32_t rest = word & 0x7fffffffu;
  if (rest > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);  // NaN
  // From halfway between 65504 and 65536 on.
  if (rest >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (rest < 0x38800000u) {
    // Below 2^-14, numbers in half precision are multiples of 2^-24, which is the distance of
    // floats from 0.5 on: the addition rounds.
    float const sum = std::bit_cast<float>(rest) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(sum) - 0x3f000000u));
  }
  rest += 0xfffu + (rest >> 13 & 1u);
  return static_cast<std::uint16_t>(sign | ((rest - (112u << 23)) >> 13));
}

PLAIT_DECL bool write_q8_0(std::span<float const, q8_0_elements> values,
                           std::span<std::byte, q8_0_bytes> out) {
  float greatest = 0;
  for (float const value : values) {
    if (!std::isfinite(value)) return false;
    greatest = std::max(greatest, std::abs(value));
  }
  float const scale = greatest / 127;
  std::uint16_t const bits = f16_from_float(scale);
  if (bits == 0x7c00u) return false;
  float const factor = scale == 0 ? 0 : 1 / scale;
  std::memcpy(out.data(), &bits, 2);
  for (std::size_t i = 0; i < q8_0_elements; ++i) {
    // If the scale is so small that 1 / scale is infinite, its bits are 0.
    auto const number =
        static_cast<std::int8_t>(std::isfinite(factor) ? std::round(values[i] * factor) : 0);
    out[2 + i] = static_cast<std::byte>(number);
  }
  return true;
}

PLAIT_DECL void gguf_metadata::begin(std::string_view key, std::uint32_t type) {
  if (!keys_.emplace(key).second)
    throw error({"gguf_metadata: the key ", in_quotes(key), " is given twice"});
  append_text(key);
  append(type);
}

PLAIT_DECL void gguf_metadata::append_text(std::string_view text) {
  append(std::uint64_t{text.size()});
  bytes_ += text;
}

PLAIT_DECL void gguf_metadata::add(std::string_view key, std::string_view value) {
  begin(key, 8);
  append_text(value);
}

PLAIT_DECL void gguf_metadata::add(std::string_view key, std::span<std::string const> values) {
  begin(key, 9);
  append(std::uint32_t{8});
  append(std::uint64_t{values.size()});
  for (auto const& value : values) append_text(value);
}

PLAIT_DECL void gguf_metadata::add(std::string_view key, std::span<std::int32_t const> values) {
  begin(key, 9);
  append(std::uint32_t{5});
  append(std::uint64_t{values.size()});
  for (auto const value : values) append(value);
}

PLAIT_DECL std::size_t gguf_tensor::bytes() const {
  switch (type) {
    case gguf_type::f32: return 4 * elements();
    case gguf_type::f16:
    case gguf_type::bf16: return 2 * elements();
    case gguf_type::q8_0: return elements() / q8_0_elements * q8_0_bytes;
  }
  return 0;
}

PLAIT_DECL std::size_t gguf_tensor::source_row(std::size_t row) const {
  if (interleaved_heads == 0) return row;
  std::size_t const width = rows / interleaved_heads, in_head = row % width;
  return row - in_head + in_head % 2 * (width / 2) + in_head / 2;
}

}  // namespace plait::detail

namespace plait::ext {

PLAIT_DECL gguf_writer::gguf_writer(std::string const& path, detail::gguf_metadata const& metadata,
                                    std::span<detail::gguf_tensor const> tensors, bool replaces)
    : file_(path, "GGUF file"), replaces_(replaces) {
  constexpr std::size_t alignment = 32, most = std::size_t{1} << 62;
  if (std::error_code problem;
      !replaces_ && std::filesystem::exists(std::filesystem::symlink_status(path, problem)))
    file_.name().refuse("exists; set .overwrite to replace it, or name another file");
  std::string header = "GGUF";
  auto const append = [&]<class Number>(Number number) {
    char bytes[sizeof(Number)];
    std::memcpy(bytes, &number, sizeof(Number));
    header.append(bytes, sizeof(Number));
  };
  append(std::uint32_t{3});
  append(std::uint64_t{tensors.size()});
  append(std::uint64_t{metadata.count()});
  header += metadata.bytes();
  std::size_t begin = 0;  // the offset of a tensor within the data
  for (auto const& tensor : tensors) {
    append(std::uint64_t{tensor.name.size()});
    header += tensor.name;
    append(static_cast<std::uint32_t>(tensor.rank));
    if (tensor.rank == 2) append(std::uint64_t{tensor.columns});  // the fastest dimension first
    append(std::uint64_t{tensor.rows});
    append(static_cast<std::uint32_t>(tensor.type));
    append(std::uint64_t{begin});
    if (!slots_.emplace(tensor.name, slot{tensor, begin}).second)
      refuse(tensor.name, "is given twice");
    if (tensor.type == gguf_type::q8_0 && tensor.columns % detail::q8_0_elements != 0)
      refuse(tensor.name, concat({"has rows of ", tensor.columns,
                                  " elements, and Q8_0 needs a multiple of 32"}));
    std::size_t const bytes = tensor.bytes();
    if (bytes > most - alignment || begin > most - alignment - bytes)
      refuse(tensor.name, "makes the file longer than 2^62 bytes");
    begin += (bytes + alignment - 1) / alignment * alignment;
  }
  header.resize((header.size() + alignment - 1) / alignment * alignment);
  for (auto& [name, one] : slots_) one.at += header.size();
  // The end of the file is padding, which llama.cpp expects after the last tensor, too.
  file_.reserve(header.size() + begin);
  file_.write(std::as_bytes(std::span(header)), 0);
  if (begin > 0) {
    std::byte const zero{};
    file_.write({&zero, 1}, header.size() + begin - 1);
  }
}

PLAIT_DECL void gguf_writer::commit() {
  for (auto const& [name, one] : slots_)
    if (!one.is_written) refuse(name, "was not written");
  if (replaces_) return file_.commit();
  if (!file_.commit_if_new())
    file_.name().refuse(
        "appeared while it was written; set .overwrite to replace it, or name another file");
}

PLAIT_DECL void gguf_writer::refuse(std::string_view name, std::string const& what) const {
  file_.name().refuse_part(concat({"tensor ", detail::in_quotes(name)}), what);
}

PLAIT_DECL void gguf_writer::refuse_large(detail::gguf_tensor const& tensor) const {
  refuse(tensor.name, concat({"holds a number that is ",
                              (tensor.type == gguf_type::q8_0 ? "not finite or " : ""),
                              "too large for ", to_string(tensor.type)}));
}

PLAIT_DECL gguf_writer::slot& gguf_writer::slot_of(std::string_view name, std::size_t elements) {
  auto const found = slots_.find(name);
  if (found == slots_.end()) refuse(name, "is not among the tensors of the file");
  auto& one = found->second;
  if (one.is_written) refuse(name, "is written twice");
  if (one.tensor.elements() != elements)
    refuse(name,
           concat({"needs ", one.tensor.elements(), " elements, but ", elements, " are given"}));
  return one;
}

PLAIT_DECL void gguf_writer::append(detail::gguf_tensor const& tensor, std::span<float const> row,
                                    std::vector<std::byte>& out) const {
  auto const bytes = [&](auto const& number) {
    auto const all = std::as_bytes(std::span(&number, 1));
    out.insert(out.end(), all.begin(), all.end());
  };
  switch (tensor.type) {
    case gguf_type::f32:
      for (float const value : row) bytes(value);
      return;
    case gguf_type::f16:
      for (float const value : row) {
        std::uint16_t const half = detail::f16_from_float(value);
        if ((half & 0x7fffu) == 0x7c00u && std::isfinite(value)) refuse_large(tensor);
        bytes(half);
      }
      return;
    case gguf_type::bf16:
      for (float const value : row) {
        bfloat16 const half(value);
        if (std::isinf(static_cast<float>(half)) && std::isfinite(value)) refuse_large(tensor);
        bytes(half.bits);
      }
      return;
    case gguf_type::q8_0:
      for (std::size_t i = 0; i < row.size(); i += detail::q8_0_elements) {
        out.resize(out.size() + detail::q8_0_bytes);
        if (!detail::write_q8_0(row.subspan(i).first<detail::q8_0_elements>(),
                                std::span(out).last<detail::q8_0_bytes>()))
          refuse_large(tensor);
      }
      return;
  }
}

}  // namespace plait::ext
