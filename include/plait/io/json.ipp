// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/io/json.hpp"

#include <limits>
#include <set>

#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"
#include "plait/io/block.hpp"

namespace plait::detail {

PLAIT_DECL json_value read_json(std::string const& text, std::size_t most_bytes,
                                file_name const& file, std::string const& part) {
  auto const refuse = [&](std::string const& what) {
    if (part.empty()) file.refuse(what);
    file.refuse_part(part, what);
  };
  if (text.size() > most_bytes)
    refuse(concat({"has ", text.size(), " bytes; at most ", most_bytes, " are allowed"}));
  // A null byte is refused, because the library would treat it as the end of the text.
  if (auto const zero = text.find('\0'); zero != std::string::npos)
    refuse(concat({"is not JSON (at its byte ", zero + 1, ")"}));
  json_value out;
  try {
    out = json_value::parse(text);
  } catch (json_value::parse_error const& problem) {
    refuse(concat({"is not JSON (at its byte ", problem.byte, ")"}));
  } catch (json_value::out_of_range const&) {
    refuse("is not JSON (it has a number that is too large)");
  }
  return out;
}

PLAIT_DECL json_value const* member_of(json_value const* of, std::string_view name) {
  auto const* const members = of == nullptr ? nullptr : object_in(*of);
  if (members == nullptr) return nullptr;
  for (auto const& [key, value] : *members)
    if (key == name) return &value;
  return nullptr;
}

PLAIT_DECL void refuse_repeated(json_object const& members, file_name const& file,
                                std::string const& part) {
  std::set<std::string_view> names;
  for (auto const& [name, value] : members)
    if (!names.insert(name).second)
      file.refuse(concat({"has the field ", in_quotes(concat({part, name})), " twice"}));
}

PLAIT_DECL bool is_nested_deeper(std::string_view text, int most) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char const c = text[i];
    if (in_string && c == '\\') ++i;
    else if (c == '"') in_string = !in_string;
    else if (!in_string && (c == '[' || c == '{') && ++depth > most) return true;
    else if (!in_string && (c == ']' || c == '}')) --depth;
  }
  return false;
}

PLAIT_DECL bool take(json_value const& value, std::string& out) {
  auto const* const text = value.get_ptr<std::string const*>();
  if (text != nullptr) out = *text;
  return text != nullptr;
}

PLAIT_DECL bool take(json_value const& value, std::uint64_t& out) {
  auto const* const number = value.get_ptr<json_value::number_unsigned_t const*>();
  if (number != nullptr) out = *number;
  return number != nullptr;
}

PLAIT_DECL bool take(json_value const& value, std::int64_t& out) {
  std::uint64_t number = 0;
  if (!take(value, number) || number > std::uint64_t{std::numeric_limits<std::int64_t>::max()})
    return false;
  out = static_cast<std::int64_t>(number);
  return true;
}

PLAIT_DECL bool take(json_value const& value, std::vector<std::size_t>& out) {
  auto const* const list = list_in(value);
  if (list == nullptr || list->size() > most_dimensions) return false;
  out.assign(list->size(), 0);
  for (std::size_t i = 0; i < out.size(); ++i)
    if (!take((*list)[i], out[i])) return false;
  return true;
}

}  // namespace plait::detail
