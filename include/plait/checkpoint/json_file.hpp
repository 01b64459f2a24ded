// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "plait/core/concat.hpp"
#include "plait/core/file.hpp"
#include "plait/core/quote.hpp"
#include "plait/io/json.hpp"

// The JSON files next to the weights in a folder of Hugging Face. Only .ipp files include this
// header, as they do io/json.hpp.
namespace plait::detail {

/// Returns the member of an object with this key, or nullptr.
///
/// Errors: input_error that names the file if the object has two such members.
[[nodiscard]] inline json_value const* member_of(json_object const& object, std::string_view key,
                                                 file_name const& file) {
  json_value const* out = nullptr;
  for (auto const& [name, value] : object) {
    if (name != key) continue;
    if (out != nullptr) file.refuse(concat({"has ", in_quotes(std::string(key)), " twice"}));
    out = &value;
  }
  return out;
}

/// A JSON file that holds an object.
class json_file {
 public:
  /// Errors: input_error that names the file if it cannot be read, is longer than `most_bytes`, is
  ///         nested more than 100 deep, or does not hold a JSON object.
  json_file(std::filesystem::path const& path, std::string_view kind, std::size_t most_bytes)
      : name_(kind, path.string()), value_(read(path, kind, most_bytes)) {
    if (object_in(value_) == nullptr) name_.refuse("is not an object");
  }

  [[nodiscard]] file_name const& name() const { return name_; }
  [[nodiscard]] json_value const& value() const { return value_; }
  [[nodiscard]] json_object const& object() const { return *object_in(value_); }
  /// Returns a member of the object, or nullptr; null counts as no member.
  [[nodiscard]] json_value const* find(std::string_view key) const {
    return find_in(object(), key);
  }
  [[nodiscard]] json_value const* find_in(json_object const& object, std::string_view key) const {
    auto const* const out = member_of(object, key, name_);
    return out == nullptr || out->is_null() ? nullptr : out;
  }

 private:
  json_value read(std::filesystem::path const& path, std::string_view kind,
                  std::size_t most_bytes) const {
    open_file const file(path.string(), kind);
    if (file.size() > most_bytes)
      name_.refuse(concat({"has ", file.size(), " bytes; at most ", most_bytes, " are allowed"}));
    std::string text(file.size(), '\0');
    file.read(std::as_writable_bytes(std::span(text)), 0);
    constexpr int most_nested = 100;
    if (is_nested_deeper(text, most_nested))
      name_.refuse(concat({"has more than ", most_nested, " lists and objects within each other"}));
    return read_json(text, most_bytes, name_);
  }

  file_name name_;
  json_value value_;
};

}  // namespace plait::detail
