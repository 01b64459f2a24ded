// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/core/bfloat16.hpp"
#include "plait/core/file.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"

namespace plait {

/// The type in which a GGUF file stores the elements of a tensor, under its number in the format.
enum class gguf_type : std::uint32_t {
  f32 = 0,
  f16 = 1,   ///< IEEE half precision
  q8_0 = 8,  ///< blocks of 32 elements of a row: 32 integers of 8 bits and their scale in f16
  bf16 = 30
};

/// Returns the name of a type, as llama.cpp writes it.
constexpr char const* to_string(gguf_type type) {
  switch (type) {
    case gguf_type::f32: return "F32";
    case gguf_type::f16: return "F16";
    case gguf_type::q8_0: return "Q8_0";
    case gguf_type::bf16: return "BF16";
  }
  return "unknown";
}

}  // namespace plait

namespace plait::detail {

/// The number of elements that share a scale in Q8_0, and the bytes of such a block.
inline constexpr std::size_t q8_0_elements = 32, q8_0_bytes = 2 + 32;

/// Rounds to the nearest number in half precision, and of two equally near numbers to the even one.
/// A number beyond the largest, 65504, becomes infinite.
[[nodiscard]] std::uint16_t f16_from_float(float value);

/// Writes 32 numbers as a block of Q8_0: the scale d = max |x| / 127, in half precision, and x / d
/// rounded to integers, halves away from zero. Returns false if a number is not finite or d is too
/// large.
[[nodiscard]] bool write_q8_0(std::span<float const, q8_0_elements> values,
                              std::span<std::byte, q8_0_bytes> out);

/// The metadata of a GGUF file: pairs of a key and a value, as bytes of the file.
class gguf_metadata {
 public:
  void add(std::string_view key, std::uint32_t value) { add_number(key, 4, value); }
  void add(std::string_view key, float value) { add_number(key, 6, value); }
  void add(std::string_view key, bool value) { add_number(key, 7, std::uint8_t{value}); }
  void add(std::string_view key, std::string_view value);
  void add(std::string_view key, std::span<std::string const> values);
  void add(std::string_view key, std::span<std::int32_t const> values);

  [[nodiscard]] std::string const& bytes() const { return bytes_; }
  [[nodiscard]] std::size_t count() const { return keys_.size(); }

 private:
  template <class T>
  void add_number(std::string_view key, std::uint32_t type, T value) {
    begin(key, type);
    append(value);
  }
  template <class T>
  void append(T value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    bytes_.append(bytes, sizeof(T));
  }
  void begin(std::string_view key, std::uint32_t type);
  void append_text(std::string_view text);

  std::string bytes_;
  std::set<std::string, std::less<>> keys_;
};

/// A tensor of a GGUF file.
struct gguf_tensor {
  std::string name;
  gguf_type type = gguf_type::f32;
  int rank = 2;
  std::size_t rows = 1, columns = 1;  ///< a vector has one column
  /// The number of heads in each of which the rows are stored in the order 0, w / 2, 1, w / 2 + 1,
  /// ... for w rows a head; 0: the rows keep their order.
  std::size_t interleaved_heads = 0;

  [[nodiscard]] std::size_t elements() const { return rows * columns; }
  [[nodiscard]] std::size_t bytes() const;
  /// Returns the row of the given values that is stored as row `row`.
  [[nodiscard]] std::size_t source_row(std::size_t row) const;
};

}  // namespace plait::detail

namespace plait::ext {

/// Writes a GGUF file (version 3) tensor by tensor. The file appears under its name in commit(),
/// complete and on the disk.
///
/// Errors:  input_error that names the file and, if there is one, the tensor. If the file exists
/// and
///          `replaces` is false, the constructor refuses it, and commit() if it has appeared since.
/// Threads: used by one thread.
class gguf_writer {
 public:
  gguf_writer(std::string const& path, detail::gguf_metadata const& metadata,
              std::span<detail::gguf_tensor const> tensors, bool replaces);

  /// Writes a whole tensor from its row-major values, rounded to float and then to its type.
  ///
  /// Cost:   converts 64 KiB at a time.
  /// Errors: input_error if a finite number is too large for the type, or Q8_0 gets a number that
  /// is
  ///         not finite.
  template <class T>
  void write(std::string_view name, std::span<T const> values) {
    auto& [tensor, at, is_written] = slot_of(name, values.size());
    std::vector<float> row(tensor.columns);
    std::vector<std::byte> out;
    for (std::size_t r = 0; r < tensor.rows; ++r) {
      auto const from = values.subspan(tensor.source_row(r) * tensor.columns, tensor.columns);
      for (std::size_t i = 0; i < row.size(); ++i) row[i] = rounded(tensor, from[i]);
      append(tensor, row, out);
      if (out.size() < piece_bytes && r + 1 < tensor.rows) continue;
      file_.write(out, at);
      at += out.size();
      out.clear();
    }
    is_written = true;
  }

  /// Makes the file appear under its name, complete and on the disk.
  void commit();

 private:
  static constexpr std::size_t piece_bytes = std::size_t{1} << 16;
  struct slot {
    detail::gguf_tensor tensor;
    std::size_t at = 0;
    bool is_written = false;
  };

  template <class T>
  [[nodiscard]] float rounded(detail::gguf_tensor const& tensor, T value) const {
    auto const out = static_cast<float>(value);
    if (std::isinf(out) && std::isfinite(static_cast<double>(value))) refuse_large(tensor);
    return out;
  }
  [[noreturn]] void refuse(std::string_view name, std::string const& what) const;
  [[noreturn]] void refuse_large(detail::gguf_tensor const& tensor) const;
  [[nodiscard]] slot& slot_of(std::string_view name, std::size_t elements);
  /// Appends a row in the tensor's type.
  void append(detail::gguf_tensor const& tensor, std::span<float const> row,
              std::vector<std::byte>& out) const;

  detail::partial_file file_;
  bool replaces_;
  std::map<std::string, slot, std::less<>> slots_{};
};

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/gguf_file.ipp"
#endif
