// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// Ranks as words of a sentence, in the order given: of three or more that follow each other the
/// first and the last, "1-7", each other one by itself.
[[nodiscard]] [[gnu::cold]] inline std::vector<std::string> rank_ranges(
    std::vector<int> const& ranks) {
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

/// "rank 3", "ranks 1-7, 9 and 12-31"
[[nodiscard]] [[gnu::cold]] inline std::string ranks_text(std::vector<int> const& ranks) {
  auto const words = rank_ranges(ranks);
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < words.size(); ++i)
    text += concat({i == 0 ? "" : i + 1 < words.size() ? ", " : " and ", words[i]});
  return text;
}

/// The members of a group: "{0,2,4}", and of more than eight "{0-31}".
[[nodiscard]] [[gnu::cold]] inline std::string ranks_in_braces(std::vector<int> const& ranks) {
  constexpr std::size_t most = 8;
  std::string text;
  if (ranks.size() <= most)
    for (int const rank : ranks) text += concat({text.empty() ? "{" : ",", rank});
  else
    for (auto const& range : rank_ranges(ranks)) text += concat({text.empty() ? "{" : ",", range});
  return text.empty() ? "{}" : text += "}";
}

}  // namespace plait::ext
