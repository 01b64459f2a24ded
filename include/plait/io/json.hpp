// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "plait/core/file.hpp"
#include "plait/core/header_only.hpp"

// Readers that parse JSON into a tree of values. Only .ipp files include this header, because the
// JSON library would take a large part of a program's compile time.
namespace plait::detail {

/// A list of all members of an object, in the order of the text. The library's maps silently keep
/// only one of several members with the same key; with this list a reader sees all of them.
template <class Key, class Value, class Less, class Allocator>
struct json_members : std::list<std::pair<Key const, Value>, Allocator> {
  using key_type = Key;
  using mapped_type = Value;
  using key_compare = Less;

  /// Adds a member; the library's parser calls it for each key.
  Value& operator[](Key const& key) { return this->emplace_back(key, Value()).second; }
};

using json_value = nlohmann::basic_json<json_members>;
using json_object = json_value::object_t;
using json_list = json_value::array_t;

/// Parses `text` into a tree of values. `part`: the name of the part of the file for error
/// messages; empty for the whole file.
///
/// Cost:   usually 10 times the memory of the text, up to 100 times for a text of nested lists.
/// Errors: input_error, one sentence, for a text of more than `most_bytes` and for a text that is
///         not JSON.
json_value read_json(std::string const& text, std::size_t most_bytes, file_name const& file,
                     std::string const& part = {});

/// Returns the object that a value contains; null if the value is not an object. The next function
/// does the same for lists.
inline json_object const* object_in(json_value const& value) {
  return value.get_ptr<json_object const*>();
}
inline json_list const* list_in(json_value const& value) {
  return value.get_ptr<json_list const*>();
}

/// Returns the first member of `of` with a name. Returns null if there is no such member, or if
/// `of` is null or not an object.
json_value const* member_of(json_value const* of, std::string_view name);

/// Refuses a file if an object in it has two members with the same name. Error messages have `part`
/// in front of this name.
void refuse_repeated(json_object const& members, file_name const& file,
                     std::string const& part = {});

/// Returns true if lists and objects of a JSON text are nested more than `most` deep. Copying and
/// printing such a value would take too much of the stack.
bool is_nested_deeper(std::string_view text, int most);

/// Assigns a value to `out`. Returns false if the value has another type or does not fit. A number
/// must have no sign, point or exponent; a list of sizes has at most most_dimensions numbers.
bool take(json_value const& value, std::string& out);
bool take(json_value const& value, std::uint64_t& out);
bool take(json_value const& value, std::int64_t& out);
bool take(json_value const& value, std::vector<std::size_t>& out);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/io/json.ipp"
#endif
