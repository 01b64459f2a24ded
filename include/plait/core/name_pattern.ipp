// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/name_pattern.hpp"

#include <algorithm>
#include <cstddef>

namespace plait::detail {

PLAIT_DECL bool matches(std::string_view pattern, std::string_view name,
                        std::vector<std::string_view>* parts) {
  constexpr auto none = std::string_view::npos;
  if (parts != nullptr) parts->clear();
  std::size_t at = 0, star = none, begin = 0,
              end = 0;  // `star` matches the text from `begin` to `end` - 1
  auto const end_part = [&] {
    if (parts != nullptr && star != none) parts->push_back(name.substr(begin, end - begin));
  };
  for (std::size_t i = 0; i < name.size();) {
    if (at < pattern.size() && pattern[at] == '*') {
      end_part();
      star = at++;
      begin = end = i;
    } else if (at < pattern.size() && pattern[at] == name[i]) {
      ++at, ++i;
    } else if (star != none) {
      at = star + 1;
      i = ++end;
    } else {
      return false;
    }
  }
  if (pattern.find_first_not_of('*', at) != none) return false;
  end_part();
  if (parts != nullptr)
    parts->resize(parts->size() + (pattern.size() - std::min(at, pattern.size())));
  return true;
}

PLAIT_DECL bool matches_any(std::vector<std::string> const& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](auto const& one) { return matches(one, name); });
}

PLAIT_DECL std::string filled_in(std::string_view pattern,
                                 std::vector<std::string_view> const& parts) {
  std::string out;
  auto part = parts.begin();
  for (char const c : pattern)
    if (c == '*') out += *part++;
    else out += c;
  return out;
}

}  // namespace plait::detail
