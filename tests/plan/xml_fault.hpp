// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "plait/draw/svg.hpp"

// A small XML reader that knows the elements, attributes and entities of plait's pictures.
namespace xml_reader {

inline bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == ':' || c == '_';
  });
}

inline std::string fault_of_text(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    auto const count = plait::planning::character_bytes(text, i);
    if (text[i] != '\n' && count == 0) return "no character of XML";
    if (text[i] == '<') return "a < in a text";
    if (text[i] == '&') {
      auto const name = text.substr(i, text.find(';', i) - i);
      if (name != "&amp" && name != "&lt" && name != "&gt" && name != "&quot" && name != "&#39")
        return "an unknown entity: " + std::string(name);
    }
    i += std::max<std::size_t>(count, 1);
  }
  return "";
}

inline std::string fault_of_attributes(std::string_view rest) {
  while (!rest.empty()) {
    if (rest.front() != ' ') return "no space before an attribute";
    rest.remove_prefix(1);
    auto const equal = rest.find("=\"");
    if (equal == rest.npos || !is_name(rest.substr(0, equal)))
      return "no attribute: " + std::string(rest);
    auto const end = rest.find('"', equal + 2);
    if (end == rest.npos) return "an open quote";
    auto const fault = fault_of_text(rest.substr(equal + 2, end - equal - 2));
    if (!fault.empty()) return fault;
    rest.remove_prefix(end + 1);
  }
  return "";
}

// Returns the error of a document; "" if it is well-formed.
inline std::string fault_of(std::string_view text) {
  std::vector<std::string> open;
  std::size_t roots = 0;
  while (!text.empty()) {
    auto const begin = std::min(text.find('<'), text.size());
    if (open.empty() && text.substr(0, begin).find_first_not_of('\n') != text.npos &&
        text.substr(0, begin) != "")
      return "a text outside the root";
    if (auto const fault = fault_of_text(text.substr(0, begin)); !fault.empty()) return fault;
    text.remove_prefix(begin);
    if (text.empty()) break;
    auto const end = text.find('>');
    if (end == text.npos) return "an open tag";
    auto tag = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) return "a wrong end: " + std::string(tag);
      open.pop_back();
      continue;
    }
    bool const is_empty = tag.ends_with('/');
    if (is_empty) tag.remove_suffix(1);
    auto const name = tag.substr(0, std::min(tag.find(' '), tag.size()));
    if (!is_name(name)) return "no name of a tag: " + std::string(tag);
    if (auto const fault = fault_of_attributes(tag.substr(name.size())); !fault.empty())
      return fault;
    roots += open.empty();
    if (!is_empty) open.emplace_back(name);
  }
  if (!open.empty()) return "not ended: " + open.back();
  return roots == 1 ? "" : "not one root";
}

}  // namespace xml_reader
