// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace plait::detail {

/// The name of a type as the compiler writes it: "plait::measures::top<5>".
template <class T>
[[nodiscard, gnu::cold]] std::string type_name() {
  std::string_view text = __PRETTY_FUNCTION__;  // ends with "[T = name]" or "[with T = name; ...]"
  text.remove_prefix(text.find("T = ") + 4);
  return std::string(text.substr(0, std::min(text.find(';'), text.size() - 1)));
}

}  // namespace plait::detail
