// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/core/bfloat16.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/file.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/quote.hpp"
#include "plait/io/block.hpp"
#include "plait/io/json_events.hpp"

namespace plait {

static_assert(
    std::endian::native == std::endian::little,
    "plait/io/safetensors_header.hpp: safetensors files are little-endian and this machine "
    "is not; it needs conversions that plait does not have");

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
  unknown  ///< a type that plait does not know
};

namespace detail {

// The names are in the order of stored_type, which has one more.
inline constexpr std::array<char const*, 15> stored_type_names{
    "BOOL", "U8",  "I8",  "F8_E5M2", "F8_E4M3", "I16", "U16", "F16",
    "BF16", "I32", "U32", "F32",     "I64",     "U64", "F64"};
inline constexpr std::array<std::size_t, 15> stored_type_bytes{1, 1, 1, 1, 1, 2, 2, 2,
                                                               2, 4, 4, 4, 8, 8, 8};

}  // namespace detail

/// The name of a type in the file's header.
constexpr char const* to_string(stored_type type) {
  return type == stored_type::unknown ? "unknown"
                                      : detail::stored_type_names[static_cast<std::size_t>(type)];
}

}  // namespace plait

namespace plait::ext {

/// Returns the bytes of one element of a tensor that is stored as `type`; 0 if the type is unknown.
constexpr std::size_t element_bytes(stored_type type) {
  return type == stored_type::unknown ? 0
                                      : detail::stored_type_bytes[static_cast<std::size_t>(type)];
}

/// The type that stores a float, double or bfloat16 as it is.
template <class T>
  requires std::floating_point<T> || std::same_as<T, bfloat16>
inline constexpr stored_type stored_type_of = std::same_as<T, float>    ? stored_type::f32
                                              : std::same_as<T, double> ? stored_type::f64
                                                                        : stored_type::bf16;

}  // namespace plait::ext

namespace plait {

/// One named tensor of a file.
struct safetensors_entry {
  std::string name;
  stored_type type = stored_type::f32;
  std::vector<std::size_t> shape;
  /// The name of the type and the number of bytes that the file gives for a tensor of an unknown
  /// type.
  std::string unknown_type = {};
  std::size_t unknown_bytes = 0;

  [[nodiscard]] std::size_t elements() const {
    std::size_t product = 1;
    for (std::size_t const extent : shape) product *= extent;
    return product;
  }
  [[nodiscard]] std::size_t bytes() const {
    return type == stored_type::unknown ? unknown_bytes : elements() * ext::element_bytes(type);
  }
  /// Returns the name of the tensor's type in the file.
  [[nodiscard]] std::string type_name() const {
    return type == stored_type::unknown ? unknown_type : to_string(type);
  }
};

namespace detail {

// The limit of the format; and limits of ours, far above any model's, which keep the memory for a
// header within some times its length.
inline constexpr std::size_t most_header_bytes = 100'000'000;
inline constexpr std::size_t most_tensors = 300'000, most_metadata = 100'000;

// Returns false if the number of bytes of the tensor, or of its elements, overflows.
inline bool countable(safetensors_entry const& entry) {
  std::size_t bytes = std::max<std::size_t>(1, element_bytes(entry.type));
  return std::ranges::all_of(entry.shape, [&](std::size_t n) { return multiply(bytes, n); });
}

/// What the header of a file says: tensors by name with the place of their data, and free texts.
struct safetensors_header {
  struct tensor {
    safetensors_entry entry;
    std::size_t begin = 0;  ///< from where the data begins
  };
  std::map<std::string, tensor, std::less<>> tensors;
  std::map<std::string, std::string> metadata;
};

/// Reads a header. Refuses what JSON allows and the format does not: keys given twice, other
/// fields, other types.
///
/// Cost: n log n for n tensors; memory some times that of the text.
class safetensors_header_parser : public json_events<safetensors_header_parser> {
 public:
  /// `data_bytes`: how many follow the header.
  ///
  /// Errors: input_error, one sentence with the file's name, for all that is not a header.
  static safetensors_header parse(std::string const& text, std::size_t data_bytes,
                                  file_name const& file) {
    if (!text.starts_with('{')) file.refuse("has a header that does not begin with '{'");
    safetensors_header_parser parser(data_bytes, file);
    parser.read(text);
    return std::move(parser.out_);
  }

  bool other_value() { refuse_value(); }
  bool refuse_text(std::size_t at) const {
    file_.refuse(concat({"has a header that is not JSON (at its byte ", at, ")"}));
  }

  bool number_unsigned(json::number_unsigned_t value) {
    if (where_ != place::list) refuse_value();
    auto& list = field_ == field::shape ? found_.entry.shape : offsets_;
    if (list.size() == (field_ == field::shape ? most_dimensions : 2)) refuse_value();
    list.push_back(static_cast<std::size_t>(value));
    return true;
  }

  bool string(std::string& value) {
    if (where_ == place::metadata) {
      if (out_.metadata.size() == most_metadata)
        file_.refuse(concat({"has more than ", most_metadata, " texts of metadata"}));
      if (!out_.metadata.emplace(key_, std::move(value)).second) refuse_twice(key_);
      return true;
    }
    if (where_ != place::tensor || field_ != field::dtype) refuse_value();
    // A tensor of an unknown type is refused only when it is read, so that others can be read.
    auto const* const known = std::ranges::find(stored_type_names, value);
    static_assert(stored_type_names.size() == static_cast<std::size_t>(stored_type::unknown));
    found_.entry.type = static_cast<stored_type>(known - stored_type_names.begin());
    if (found_.entry.type == stored_type::unknown) found_.entry.unknown_type = std::move(value);
    return true;
  }

  bool start_object(std::size_t) {
    if (where_ == place::outside) where_ = place::header;
    else if (where_ != place::header) refuse_value();
    else where_ = name_ == "__metadata__" ? place::metadata : place::tensor;
    found_ = {};
    offsets_.clear();
    seen_.fill(false);
    return true;
  }

  bool key(std::string& value) {
    if (where_ == place::tensor) begin_field(value);
    else if (where_ == place::metadata) key_ = std::move(value);
    else begin_entry(std::move(value));
    return true;
  }

  bool end_object() {
    if (where_ == place::tensor) end_tensor();
    where_ = where_ == place::header ? place::outside : place::header;
    return true;
  }

  bool start_array(std::size_t) {
    if (where_ != place::tensor || field_ == field::dtype) refuse_value();
    where_ = place::list;
    return true;
  }

  bool end_array() {
    if (field_ == field::data_offsets && offsets_.size() != 2) refuse_value();
    where_ = place::tensor;
    return true;
  }

 private:
  enum class place { outside, header, metadata, tensor, list };
  enum class field { dtype, shape, data_offsets };

  safetensors_header_parser(std::size_t data_bytes, file_name const& file)
      : data_bytes_(data_bytes), file_(file) {}

  [[noreturn]] void refuse(std::string const& what) const {
    file_.refuse_part(concat({"tensor ", in_quotes(name_)}), what);
  }
  [[noreturn]] void refuse_twice(std::string const& key) const {
    file_.refuse(concat({"names ", in_quotes(key), " twice in its header"}));
  }
  [[noreturn]] void refuse_fields() const {
    refuse("must be described by dtype, shape and data_offsets, and nothing else");
  }

  /// Says what should be where another value is.
  [[noreturn]] void refuse_value() const {
    if (where_ == place::metadata)
      file_.refuse(concat({"has a __metadata__ whose ", in_quotes(key_), " is not a string"}));
    if (where_ == place::header && name_ == "__metadata__")
      file_.refuse("has a __metadata__ that is not an object");
    if (where_ == place::header) refuse_fields();
    if (field_ == field::dtype) refuse("has a dtype that is not a string");
    if (field_ == field::data_offsets) refuse("has data_offsets that are not two positions");
    if (found_.entry.shape.size() == most_dimensions)
      refuse(concat({"has a shape of more than ", most_dimensions, " sizes"}));
    refuse("has a shape that is not a list of sizes");
  }

  void begin_entry(std::string name) {
    name_ = std::move(name);
    if (name_ == "__metadata__" ? std::exchange(has_metadata_, true) : out_.tensors.contains(name_))
      refuse_twice(name_);
    if (out_.tensors.size() == most_tensors)
      file_.refuse(concat({"has more than ", most_tensors, " tensors"}));
  }

  void begin_field(std::string const& name) {
    constexpr std::array<std::string_view, 3> fields{"dtype", "shape", "data_offsets"};
    auto const* const known = std::ranges::find(fields, name);
    if (known == fields.end()) refuse_fields();
    auto const number = static_cast<std::size_t>(known - fields.begin());
    if (std::exchange(seen_[number], true)) refuse_twice(name);
    field_ = static_cast<field>(number);
  }

  void end_tensor() {
    if (std::ranges::find(seen_, false) != seen_.end()) refuse_fields();
    auto& entry = found_.entry;
    if (!countable(entry))
      refuse(concat({"has the shape ", shape_text(entry.shape), ", which overflows"}));
    std::size_t const begin = offsets_[0], end = offsets_[1];
    if (begin > end || end > data_bytes_)
      refuse(concat({"has data_offsets ", begin, " to ", end, "; the file has ", data_bytes_,
                     " bytes of data"}));
    entry.unknown_bytes = entry.type == stored_type::unknown ? end - begin : 0;
    // This bounds the memory for a tensor by the size of the file.
    std::size_t const least = entry.elements() / 8 + (entry.elements() % 8 != 0 ? 1 : 0);
    if (entry.type == stored_type::unknown && least > end - begin)
      refuse(concat({"has ", end - begin, " bytes of data for ", entry.elements(),
                     " elements, less than a bit for each"}));
    if (end - begin != entry.bytes())
      refuse(concat({"has ", end - begin, " bytes of data; ", to_string(entry.type), " of shape ",
                     shape_text(entry.shape), " needs ", entry.bytes()}));
    entry.name = name_;
    found_.begin = begin;
    out_.tensors.emplace(name_, std::move(found_));
  }

  std::size_t data_bytes_;
  file_name const& file_;
  safetensors_header out_;
  // Where the last event was.
  place where_ = place::outside;
  field field_ = field::dtype;
  std::string name_, key_;  // of a tensor or "__metadata__"; in the metadata
  std::array<bool, 3> seen_{};
  std::vector<std::size_t> offsets_;
  safetensors_header::tensor found_;
  bool has_metadata_ = false;
};

}  // namespace detail

}  // namespace plait
