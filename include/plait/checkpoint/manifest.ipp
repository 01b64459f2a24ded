// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/checkpoint/manifest.hpp"

#include <algorithm>

#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail {

PLAIT_DECL std::string in_words(std::string_view text, std::size_t first) {
  if (text.empty()) return "''";
  auto const rest = text.substr(first);
  return (first > 0 ? "..." : "") + escaped(rest.substr(0, 200)) + (rest.size() > 200 ? "..." : "");
}

// Returns the index of the byte at which a message begins to show two long settings: 0 if the
// difference is then visible, else the index of a byte near the first difference.
PLAIT_DECL std::size_t begin_of_difference(std::string_view one, std::string_view other) {
  auto const same = std::ranges::mismatch(one, other).in1 - one.begin();
  return same < 150 ? 0 : static_cast<std::size_t>(same) - 50;
}

}  // namespace plait::detail

namespace plait::ext {

PLAIT_DECL std::vector<std::string> differences(
    std::vector<std::pair<std::string, std::string>> const& saved,
    std::vector<std::pair<std::string, std::string>> const& now,
    std::span<std::string_view const> allowed) {
  auto const is_allowed = [&](std::string const& name) {
    return std::ranges::find(allowed, name) != allowed.end();
  };
  using pair = std::pair<std::string, std::string>;
  std::vector<std::string> out;
  for (auto const& [name, value] : saved) {
    if (is_allowed(name)) continue;
    auto const found = std::ranges::find(now, name, &pair::first);
    auto const first = found == now.end() ? 0 : detail::begin_of_difference(value, found->second);
    auto const before = concat({detail::in_words(name), " is ", detail::in_words(value, first)});
    if (found == now.end()) out.push_back(concat({before, " in the checkpoint and not set now"}));
    else if (found->second != value)
      out.push_back(concat(
          {before, " in the checkpoint and ", detail::in_words(found->second, first), " now"}));
  }
  for (auto const& [name, value] : now)
    if (!is_allowed(name) && std::ranges::find(saved, name, &pair::first) == saved.end())
      out.push_back(concat({detail::in_words(name), " is not set in the checkpoint and ",
                            detail::in_words(value), " now"}));
  return out;
}

}  // namespace plait::ext
