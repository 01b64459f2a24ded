// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace plait::detail {

/// Returns the name of a type as the compiler writes it: "plait::measures::top<5>".
template <class T>
[[nodiscard]] constexpr std::string_view type_text() {
  std::string_view text = __PRETTY_FUNCTION__;  // ends with "[T = name]" or "[with T = name; ...]"
  text.remove_prefix(text.find("T = ") + 4);
  return text.substr(0, std::min(text.find(';'), text.size() - 1));
}
template <class T>
[[nodiscard, gnu::cold]] std::string type_name() {
  return std::string(type_text<T>());
}

/// Returns the name of a type without namespaces, enclosing classes and template arguments: "top"
/// for plait::measures::top<5> and for outer<int>::top.
[[nodiscard]] constexpr std::string_view plain_name(std::string_view type) {
  std::size_t begin = 0, end = type.size();
  int depth = 0;  // the number of open brackets
  for (std::size_t i = 0; i < type.size(); ++i) {
    char const now = type[i];
    bool const opens = now == '<' || now == '(' || now == '{';
    if (opens && depth++ == 0) end = i;
    if (now == '>' || now == ')' || now == '}') --depth;
    if (depth == 0 && type.substr(i).starts_with("::")) begin = i + 2, end = type.size();
  }
  return type.substr(begin, end - begin);
}

}  // namespace plait::detail
