// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "plait/core/bfloat16.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/file.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/quote.hpp"
#include "plait/io/block.hpp"
#include "plait/io/safetensors_header.hpp"

namespace plait {

namespace detail {

inline float float_from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

float float_from_f16(std::uint16_t bits);

}  // namespace detail

/// Reads tensors by name from a safetensors file. The constructor checks the whole header, so that
/// a damaged file is refused before a tensor is read; `read` checks only the tensor's type and
/// number of elements.
///
/// Errors:  input_error, one sentence that names the file, the tensor and the numbers.
/// Threads: all members are const and may run at the same time.
/// Source:  https://huggingface.co/docs/safetensors (the format).
class safetensors_reader {
 public:
  explicit safetensors_reader(std::filesystem::path const& path);

  /// Returns the names of all tensors, in the order in which their data is stored.
  [[nodiscard]] std::vector<std::string> const& names() const { return names_; }

  [[nodiscard]] bool contains(std::string_view name) const {
    return header_.tensors.contains(name);
  }

  /// Returns the type and the shape of a tensor.
  ///
  /// Errors: input_error if the tensor is missing.
  [[nodiscard]] safetensors_entry const& info(std::string_view name) const {
    return find(name).entry;
  }

  /// Returns the file's metadata: pairs of free-form strings.
  [[nodiscard]] std::map<std::string, std::string> const& metadata() const {
    return header_.metadata;
  }

  /// Returns true if the tensor `name` has this shape.
  ///
  /// Errors: input_error if the tensor is missing.
  [[nodiscard]] bool has_shape(std::string_view name, std::span<std::size_t const> shape) const {
    return std::ranges::equal(info(name).shape, shape);
  }
  /// Checks that the tensor `name` has this shape.
  ///
  /// Errors: input_error with both shapes if the shape differs; input_error if the tensor is
  ///         missing.
  void expect_shape(std::string_view name, std::span<std::size_t const> shape) const;

  /// Reads a whole tensor in row-major order. Elements of the types F64, F32, BF16 and F16 are
  /// converted to T.
  ///
  /// Errors: input_error if the tensor is missing, if the size of `out` differs from the tensor's
  ///         number of elements, or if the tensor has another type.
  template <std::floating_point T>
  void read(std::string_view name, std::span<T> out) const {
    auto const& found = find(name);
    auto const& entry = found.entry;
    if (entry.elements() != out.size())
      refuse(name,
             ext::concat({"has ", entry.elements(), " elements ", detail::shape_text(entry.shape),
                          ", but ", out.size(), " are needed"}));
    read_run(found, 0, out);
  }

  /// Reads a rectangle in row-major order: it begins at `offset` and has the sizes `extent`.
  /// Elements are converted in the same way as in `read`.
  ///
  /// Shapes: offset and extent (number of dimensions of the tensor; or two, if the tensor has more:
  ///         the dimensions after the first are then combined into one); out (product of extent).
  /// Cost:   one read of the file for each contiguous part of the rectangle; nothing else of the
  ///         tensor is read.
  /// Errors: the errors of read; input_error that names the tensor's shape and the rectangle if the
  ///         rectangle is not within the tensor or `out` has another size.
  template <std::floating_point T>
  void read_block(std::string_view name, std::span<std::size_t const> offset,
                  std::span<std::size_t const> extent, std::span<T> out) const {
    auto const& found = find(name);
    auto shape = offset.size() == 2 ? detail::matrix_shape(found.entry.shape) : found.entry.shape;
    // A scalar is read like a vector of one element.
    if (shape.empty() && offset.size() == 1) shape = {1};
    if (!detail::is_block_of(shape, offset, extent))
      refuse(name, ext::concat({"has the shape ", detail::shape_text(shape),
                                ", without a rectangle ", detail::block_text(offset, extent)}));
    std::size_t elements = 1;
    // The product cannot overflow, because the rectangle is within the tensor.
    for (std::size_t const n : extent) elements *= n;
    if (elements != out.size())
      refuse(name, ext::concat({"of shape ", detail::shape_text(shape), " has ", elements,
                                " elements in its rectangle ", detail::block_text(offset, extent),
                                ", but ", out.size(), " are needed"}));
    detail::for_each_run(shape, offset, extent, [&](std::size_t first, std::size_t count) {
      read_run(found, first, out.first(count));
      out = out.subspan(count);
    });
  }

  /// Reads bytes of a tensor's data without conversion, beginning at byte `at` of the data.
  ///
  /// Errors: input_error if the tensor is missing or ends before the last byte.
  void read_bytes(std::string_view name, std::size_t at, std::span<std::byte> out) const;

  /// Maps the whole file into memory, for access in any order. No process may change the file while
  /// it is mapped, see detail::mapped_file.
  [[nodiscard]] detail::mapped_file map() const { return detail::mapped_file(file_); }

  /// Returns the position of a tensor's first byte in the file. The constructor has checked that
  /// the file has all bytes of the tensor.
  ///
  /// Errors: input_error if the tensor is missing.
  [[nodiscard]] std::size_t position(std::string_view name) const {
    return data_begin_ + find(name).begin;
  }

 private:
  using tensor = detail::safetensors_header::tensor;

  [[noreturn]] void refuse(std::string_view name, std::string const& what) const;

  [[nodiscard]] tensor const& find(std::string_view name) const;

  // Reads contiguous elements of a tensor, beginning at element `first`.
  template <class T>
  void read_run(tensor const& from, std::size_t first, std::span<T> out) const {
    auto const& entry = from.entry;
    std::size_t const at = data_begin_ + from.begin + first * ext::element_bytes(entry.type);
    if (entry.type == ext::stored_type_of<T>) return file_.read(std::as_writable_bytes(out), at);
    switch (entry.type) {
      case stored_type::f64:
        return read_as<double>(out, at, [&](double x) {
          if (std::isfinite(x) && !std::isfinite(static_cast<T>(x)))
            refuse(entry.name, "holds a number that is too large for float");
          return x;
        });
      case stored_type::f32: return read_as<float>(out, at, [](float x) { return x; });
      case stored_type::bf16: return read_as<std::uint16_t>(out, at, detail::float_from_bf16);
      case stored_type::f16: return read_as<std::uint16_t>(out, at, detail::float_from_f16);
      default:
        refuse(entry.name, ext::concat({"holds ", detail::escaped(entry.type_name()),
                                        "; only F64, F32, BF16 and F16 can be read as numbers"}));
    }
  }

  template <class Stored, class T, class Convert>
  void read_as(std::span<T> out, std::size_t at, Convert convert) const {
    std::array<Stored, 8192> chunk;  // NOLINT: filled by read
    while (!out.empty()) {
      auto const part = std::span(chunk).first(std::min(chunk.size(), out.size()));
      file_.read(std::as_writable_bytes(part), at);
      std::ranges::transform(part, out.begin(),
                             [&](Stored x) { return static_cast<T>(convert(x)); });
      out = out.subspan(part.size());
      at += part.size_bytes();
    }
  }

  // Checks that the tensors' data neither overlaps nor leaves gaps. Also sorts names_ in the order
  // of the data.
  void check_coverage();

  detail::open_file file_;
  std::size_t data_begin_ = 0;
  std::size_t data_bytes_ = 0;
  detail::safetensors_header header_;
  std::vector<std::string> names_;
};

/// Writes a safetensors file tensor by tensor. The file appears under its name in commit(),
/// complete and on disk. Until then the data is in the file plait-<16 digits>.partial in the same
/// folder, which is removed if the writer is destroyed first. `path` never has an incomplete file,
/// even if the program is killed. If a file is replaced, the new file gets the access mode of the
/// old file.
///
/// Errors:  input_error that names the path and, if there is one, the tensor.
/// Threads: after construction, different tensors may be written at the same time.
class safetensors_writer {
 public:
  /// Makes the file and writes its header. Tensors with wider types are stored first, so that all
  /// data is aligned.
  ///
  /// Errors: also input_error for repeated names and for types other than F64, F32 and BF16.
  safetensors_writer(std::filesystem::path const& path, std::span<safetensors_entry const> entries,
                     std::map<std::string, std::string> const& metadata = {});

  /// Writes a whole tensor, row-major, whose type must be the type of T. Tensors may be written in
  /// any order.
  ///
  /// Errors: input_error if the tensor is missing or its type or number of elements differs.
  template <class T, std::size_t Extent>
  void write(std::string_view name, std::span<T, Extent> values) {
    using element = std::remove_const_t<T>;
    static_assert(std::same_as<element, float> || std::same_as<element, double> ||
                      std::same_as<element, bfloat16>,
                  "safetensors_writer::write: the values must be float, double or bfloat16");
    auto const found = slots_.find(name);
    if (found == slots_.end())
      refuse(ext::concat({"has no tensor ", detail::in_quotes(name), " to write"}));
    auto& [entry, begin, written] = found->second;
    if (entry.type != ext::stored_type_of<element> || entry.elements() != values.size())
      refuse(ext::concat({"needs ", entry.elements(), " ", to_string(entry.type),
                          " elements for tensor ", detail::in_quotes(name), ", given ",
                          values.size(), " ", to_string(ext::stored_type_of<element>)}));
    file_.write(std::as_bytes(values), 8 + header_.size() + begin);
    written = true;
  }

  /// Writes a whole tensor, whose bytes are already as the file stores them.
  ///
  /// Errors: input_error if the tensor is missing or its number of bytes differs.
  void write_bytes(std::string_view name, std::span<std::byte const> bytes);

  /// Makes the file appear under its name, complete and on disk.
  ///
  /// Errors: input_error if a tensor was not written or the disk fails; `path` is then unchanged.
  void commit();

 private:
  struct slot {
    safetensors_entry entry;
    std::size_t begin = 0;
    bool written = false;
  };

  // The types that can be written, in the order in which their data is stored: the widest first.
  static constexpr std::array written_types{stored_type::f64, stored_type::f32, stored_type::bf16};
  // The largest number of bytes of data in a file. It is less than 2^63, because the system's file
  // positions are signed.
  static constexpr std::size_t most_data_bytes = std::size_t{1} << 62;

  [[noreturn]] void refuse(std::string const& what) const { file_.name().refuse(what); }
  [[noreturn]] void refuse(safetensors_entry const& entry, std::string const& what) const;

  [[nodiscard]] std::string make_header(std::span<safetensors_entry const> entries,
                                        std::map<std::string, std::string> const& metadata);

  detail::partial_file file_;
  std::map<std::string, slot, std::less<>> slots_;
  std::size_t data_bytes_ = 0;
  std::string header_;
};

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/io/safetensors.ipp"
#endif
