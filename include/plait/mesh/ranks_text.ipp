// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/mesh/ranks_text.hpp"

#include <cstddef>

#include "plait/core/concat.hpp"

namespace plait::ext {

PLAIT_DECL std::vector<std::string> rank_ranges(std::vector<int> const& ranks) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    out.push_back(concat({ranks[i]}));
    if (last < i + 2) continue;
    out.back() += concat({"-", ranks[last]});
    i = last;
  }
  return out;
}

PLAIT_DECL std::string ranks_text(std::vector<int> const& ranks) {
  auto const words = rank_ranges(ranks);
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < words.size(); ++i)
    text += concat({i == 0 ? "" : i + 1 < words.size() ? ", " : " and ", words[i]});
  return text;
}

PLAIT_DECL std::string ranks_in_braces(std::vector<int> const& ranks) {
  constexpr std::size_t most = 8;
  std::string text;
  if (ranks.size() <= most)
    for (int const rank : ranks) text += concat({text.empty() ? "{" : ",", rank});
  else
    for (auto const& range : rank_ranges(ranks)) text += concat({text.empty() ? "{" : ",", range});
  return text.empty() ? "{}" : text += "}";
}

}  // namespace plait::ext
