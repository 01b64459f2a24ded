// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/io/safetensors_header.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"
#include "plait/io/block.hpp"

namespace plait {

PLAIT_DECL std::size_t safetensors_entry::elements() const {
  std::size_t product = 1;
  for (std::size_t const extent : shape) product *= extent;
  return product;
}

}  // namespace plait

namespace plait::detail {

PLAIT_DECL bool countable(safetensors_entry const& entry) {
  std::size_t bytes = std::max<std::size_t>(1, element_bytes(entry.type));
  return std::ranges::all_of(entry.shape, [&](std::size_t n) { return multiply(bytes, n); });
}

// Parses a header from the events of the JSON library, without a tree of values.
class safetensors_header_parser {
 public:
  using json = nlohmann::json;

  static safetensors_header parse(std::string const& text, std::size_t data_bytes,
                                  file_name const& file);

  bool null() { refuse_value(); }
  bool boolean(bool) { refuse_value(); }
  bool number_integer(json::number_integer_t) { refuse_value(); }
  bool number_float(json::number_float_t, std::string const&) { refuse_value(); }
  bool binary(json::binary_t&) { refuse_value(); }
  bool number_unsigned(json::number_unsigned_t value);
  bool string(std::string& value);
  bool start_object(std::size_t);
  bool key(std::string& value);
  bool end_object();
  bool start_array(std::size_t);
  bool end_array();
  template <class Problem>
  bool parse_error(std::size_t at, std::string const&, Problem const&) {
    refuse_text(at);
  }

 private:
  enum class place { outside, header, metadata, tensor, list };
  enum class field { dtype, shape, data_offsets };

  safetensors_header_parser(std::size_t data_bytes, file_name const& file)
      : data_bytes_(data_bytes), file_(file) {}

  // Refuses a text that is not JSON, or a number that is too large for its type, at byte `at`.
  [[noreturn]] void refuse_text(std::size_t at) const;
  [[noreturn]] void refuse(std::string const& what) const;
  [[noreturn]] void refuse_twice(std::string const& key) const;
  [[noreturn]] void refuse_fields() const {
    refuse("must be described by dtype, shape and data_offsets, and nothing else");
  }

  // Throws an error that states which value is expected at the present part of the header.
  [[noreturn]] void refuse_value() const;

  void begin_entry(std::string name);
  void begin_field(std::string const& name);
  void end_tensor();

  std::size_t data_bytes_;
  file_name const& file_;
  safetensors_header out_;
  // The part of the header in which the last event occurred.
  place where_ = place::outside;
  field field_ = field::dtype;
  // The name of the present tensor or "__metadata__"; the present key of the metadata.
  std::string name_, key_;
  std::array<bool, 3> seen_{};
  std::vector<std::size_t> offsets_;
  safetensors_header::tensor found_;
  bool has_metadata_ = false;
};

PLAIT_DECL safetensors_header safetensors_header_parser::parse(std::string const& text,
                                                               std::size_t data_bytes,
                                                               file_name const& file) {
  if (!text.starts_with('{')) file.refuse("has a header that does not begin with '{'");
  safetensors_header_parser parser(data_bytes, file);
  // A null byte is refused, because the library would treat it as the end of the text.
  if (auto const zero = text.find('\0'); zero != std::string::npos) parser.refuse_text(zero + 1);
  json::sax_parse(text, &parser);
  return std::move(parser.out_);
}

PLAIT_DECL void safetensors_header_parser::refuse_text(std::size_t at) const {
  file_.refuse(concat({"has a header that is not JSON (at its byte ", at, ")"}));
}

PLAIT_DECL bool safetensors_header_parser::number_unsigned(json::number_unsigned_t value) {
  if (where_ != place::list) refuse_value();
  auto& list = field_ == field::shape ? found_.entry.shape : offsets_;
  if (list.size() == (field_ == field::shape ? most_dimensions : 2)) refuse_value();
  list.push_back(static_cast<std::size_t>(value));
  return true;
}

PLAIT_DECL bool safetensors_header_parser::string(std::string& value) {
  if (where_ == place::metadata) {
    if (out_.metadata.size() == most_metadata)
      file_.refuse(concat({"has more than ", most_metadata, " metadata entries"}));
    if (!out_.metadata.emplace(key_, std::move(value)).second) refuse_twice(key_);
    return true;
  }
  if (where_ != place::tensor || field_ != field::dtype) refuse_value();
  // A tensor of an unknown type is not refused here but when it is read, so that the file's other
  // tensors can be read.
  auto const* const known = std::ranges::find(stored_type_names, value);
  static_assert(stored_type_names.size() == static_cast<std::size_t>(stored_type::unknown));
  found_.entry.type = static_cast<stored_type>(known - stored_type_names.begin());
  if (found_.entry.type == stored_type::unknown) found_.entry.unknown_type = std::move(value);
  return true;
}

PLAIT_DECL bool safetensors_header_parser::start_object(std::size_t) {
  if (where_ == place::outside) where_ = place::header;
  else if (where_ != place::header) refuse_value();
  else where_ = name_ == "__metadata__" ? place::metadata : place::tensor;
  found_ = {};
  offsets_.clear();
  seen_.fill(false);
  return true;
}

PLAIT_DECL bool safetensors_header_parser::key(std::string& value) {
  if (where_ == place::tensor) begin_field(value);
  else if (where_ == place::metadata) key_ = std::move(value);
  else begin_entry(std::move(value));
  return true;
}

PLAIT_DECL bool safetensors_header_parser::end_object() {
  if (where_ == place::tensor) end_tensor();
  where_ = where_ == place::header ? place::outside : place::header;
  return true;
}

PLAIT_DECL bool safetensors_header_parser::start_array(std::size_t) {
  if (where_ != place::tensor || field_ == field::dtype) refuse_value();
  where_ = place::list;
  return true;
}

PLAIT_DECL bool safetensors_header_parser::end_array() {
  if (field_ == field::data_offsets && offsets_.size() != 2) refuse_value();
  where_ = place::tensor;
  return true;
}

PLAIT_DECL void safetensors_header_parser::refuse(std::string const& what) const {
  file_.refuse_part(concat({"tensor ", in_quotes(name_)}), what);
}

PLAIT_DECL void safetensors_header_parser::refuse_twice(std::string const& key) const {
  file_.refuse(concat({"names ", in_quotes(key), " twice in its header"}));
}

PLAIT_DECL void safetensors_header_parser::refuse_value() const {
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

PLAIT_DECL void safetensors_header_parser::begin_entry(std::string name) {
  name_ = std::move(name);
  if (name_ == "__metadata__" ? std::exchange(has_metadata_, true) : out_.tensors.contains(name_))
    refuse_twice(name_);
  if (out_.tensors.size() == most_tensors)
    file_.refuse(concat({"has more than ", most_tensors, " tensors"}));
}

PLAIT_DECL void safetensors_header_parser::begin_field(std::string const& name) {
  constexpr std::array<std::string_view, 3> fields{"dtype", "shape", "data_offsets"};
  auto const* const known = std::ranges::find(fields, name);
  if (known == fields.end()) refuse_fields();
  auto const number = static_cast<std::size_t>(known - fields.begin());
  if (std::exchange(seen_[number], true)) refuse_twice(name);
  field_ = static_cast<field>(number);
}

PLAIT_DECL void safetensors_header_parser::end_tensor() {
  if (std::ranges::find(seen_, false) != seen_.end()) refuse_fields();
  auto& entry = found_.entry;
  if (!countable(entry))
    refuse(concat({"has the shape ", shape_text(entry.shape), ", which overflows"}));
  std::size_t const begin = offsets_[0], end = offsets_[1];
  if (begin > end || end > data_bytes_)
    refuse(concat({"has data_offsets ", begin, " to ", end, "; the file has ", data_bytes_,
                   " bytes of data"}));
  entry.unknown_bytes = entry.type == stored_type::unknown ? end - begin : 0;
  // An unknown type must have at least one bit for each element, so that the size of the file
  // limits the memory for a tensor.
  std::size_t const least = entry.elements() / 8 + (entry.elements() % 8 != 0 ? 1 : 0);
  if (entry.type == stored_type::unknown && least > end - begin)
    refuse(concat({"has ", end - begin, " bytes of data for ", entry.elements(),
                   " elements, which is less than one bit for each element"}));
  if (end - begin != entry.bytes())
    refuse(concat({"has ", end - begin, " bytes of data; ", to_string(entry.type), " of shape ",
                   shape_text(entry.shape), " needs ", entry.bytes()}));
  entry.name = name_;
  found_.begin = begin;
  out_.tensors.emplace(name_, std::move(found_));
}

PLAIT_DECL safetensors_header parse_safetensors_header(std::string const& text,
                                                       std::size_t data_bytes,
                                                       file_name const& file) {
  return safetensors_header_parser::parse(text, data_bytes, file);
}

}  // namespace plait::detail
