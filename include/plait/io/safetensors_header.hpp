// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "plait/core/bfloat16.hpp"
#include "plait/core/file.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"

namespace plait {

static_assert(std::endian::native == std::endian::little,
              "plait/io/safetensors_header.hpp: safetensors files are little-endian, but this "
              "machine is not, and plait cannot convert them");

/// The type in which a safetensors file stores the elements of a tensor.
enum class stored_type {
  boolean,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  i64,
  u64,
  f64,
  unknown  ///< any type that plait does not know
};

namespace detail {

// The names of the types in the order of stored_type, except `unknown`.
inline constexpr std::array<char const*, 15> stored_type_names{
    "BOOL", "U8",  "I8",  "F8_E5M2", "F8_E4M3", "I16", "U16", "F16",
    "BF16", "I32", "U32", "F32",     "I64",     "U64", "F64"};
inline constexpr std::array<std::size_t, 15> stored_type_bytes{1, 1, 1, 1, 1, 2, 2, 2,
                                                               2, 4, 4, 4, 8, 8, 8};

}  // namespace detail

/// Returns the name of a type in the file's header.
constexpr char const* to_string(stored_type type) {
  return type == stored_type::unknown ? "unknown"
                                      : detail::stored_type_names[static_cast<std::size_t>(type)];
}

}  // namespace plait

namespace plait::ext {

/// Returns the number of bytes of one element of a tensor that is stored as `type`; 0 if the type
/// is unknown.
constexpr std::size_t element_bytes(stored_type type) {
  return type == stored_type::unknown ? 0
                                      : detail::stored_type_bytes[static_cast<std::size_t>(type)];
}

/// The type in which a file stores values of T (float, double or bfloat16) without conversion.
template <class T>
  requires std::floating_point<T> || std::same_as<T, bfloat16>
inline constexpr stored_type stored_type_of = std::same_as<T, float>    ? stored_type::f32
                                              : std::same_as<T, double> ? stored_type::f64
                                                                        : stored_type::bf16;

}  // namespace plait::ext

namespace plait {

/// The name, type and shape of one tensor of a file.
struct safetensors_entry {
  std::string name;
  stored_type type = stored_type::f32;
  std::vector<std::size_t> shape;
  /// For a tensor of an unknown type: the type's name, and the number of bytes in the file.
  std::string unknown_type = {};
  std::size_t unknown_bytes = 0;

  [[nodiscard]] std::size_t elements() const;
  [[nodiscard]] std::size_t bytes() const {
    return type == stored_type::unknown ? unknown_bytes : elements() * ext::element_bytes(type);
  }
  /// Returns the name of the tensor's type in the file.
  [[nodiscard]] std::string type_name() const {
    return type == stored_type::unknown ? unknown_type : to_string(type);
  }
};

namespace detail {

// The format limits the length of a header to most_header_bytes. The other limits are set by plait,
// far above the needs of any model. With them, the memory for a header is at most a small multiple
// of the header's length.
inline constexpr std::size_t most_header_bytes = 100'000'000;
inline constexpr std::size_t most_tensors = 300'000, most_metadata = 100'000;

// Returns true unless the number of bytes or of elements of the tensor overflows.
bool countable(safetensors_entry const& entry);

/// The content of a file's header: the tensors by name, with the position of their data, and the
/// metadata, which are free-form strings.
struct safetensors_header {
  struct tensor {
    safetensors_entry entry;
    std::size_t begin = 0;  ///< the offset of the tensor's data within the file's data
  };
  std::map<std::string, tensor, std::less<>> tensors;
  std::map<std::string, std::string> metadata;
};

/// Parses a header. Refuses JSON that the format does not allow: repeated keys, unknown fields,
/// values of wrong types. `data_bytes`: number of bytes after the header.
///
/// Cost:   O(n log n) for n tensors; memory several times the size of the text.
/// Errors: input_error, one sentence with the file's name, for every other text.
safetensors_header parse_safetensors_header(std::string const& text, std::size_t data_bytes,
                                            file_name const& file);

}  // namespace detail

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/io/safetensors_header.ipp"
#endif
