// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "plait/core/file.hpp"
#include "plait/core/header_only.hpp"

// Reads JSON into a tree of its values. Only .ipp files include this, since the JSON library is a
// large part of a program's compile time.
namespace plait::detail {

/// All members of an object, in the order of the text. The library's maps silently keep one of two
/// members with the same key; with this list a reader sees both.
template <class Key, class Value, class Less, class Allocator>
struct json_members : std::list<std::pair<Key const, Value>, Allocator> {
  using key_type = Key;
  using mapped_type = Value;
  using key_compare = Less;

  /// Adds a member, as the library's parser does for each key.
  Value& operator[](Key const& key) { return this->emplace_back(key, Value()).second; }
};

using json_value = nlohmann::basic_json<json_members>;
using json_object = json_value::object_t;
using json_list = json_value::array_t;

/// Parses `text` into a value. Messages name `part` of the file, or the file itself.
///
/// Cost:   usually 10 times the memory of the text, up to 100 times for a text that nests lists.
/// Errors: input_error, one sentence, for more than `most_bytes` and for what is not JSON.
json_value read_json(std::string const& text, std::size_t most_bytes, file_name const& file,
                     std::string const& part = {});

/// Returns a value as an object, or as a list; null if it is of another kind.
inline json_object const* object_in(json_value const& value) {
  return value.get_ptr<json_object const*>();
}
inline json_list const* list_in(json_value const& value) {
  return value.get_ptr<json_list const*>();
}

/// Gives `out` a value. Returns false if the value is of another kind or does not fit: numbers have
/// no sign, point or exponent, and a list of sizes has at most most_dimensions of them.
bool take(json_value const& value, std::string& out);
bool take(json_value const& value, std::uint64_t& out);
bool take(json_value const& value, std::int64_t& out);
bool take(json_value const& value, std::vector<std::size_t>& out);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/io/json.ipp"
#endif
