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

// Returns the lines of a text of execution::text_of_roles.
PLAIT_DECL std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    auto const end = std::min(text.find('\n'), text.size());
    out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

// Returns a sentence about the first parameter that an optimizer updates by another rule now, from
// two texts of execution::text_of_roles; "" if there is none. Parameters that only one of the
// models has do not count, because the setting `model` compares them.
PLAIT_DECL std::string difference_of_roles(std::string_view optimizer, std::string_view saved,
                                           std::string_view now) {
  constexpr std::string_view matrix = "matrix ", elements = "elements ";
  auto const lines = lines_of(now);
  std::string_view first;
  bool was_matrix = false;
  std::size_t count = 0;
  for (auto const line : lines_of(saved)) {
    bool const is_matrix = line.starts_with(matrix);
    auto const name = line.substr(std::min((is_matrix ? matrix : elements).size(), line.size()));
    auto const other = concat({is_matrix ? elements : matrix, name});
    if (std::ranges::find(lines, std::string_view(other)) == lines.end()) continue;
    if (count++ > 0) continue;
    first = name;
    was_matrix = is_matrix;
  }
  if (count == 0) return "";
  constexpr char const *whole = "as a whole matrix", *single = "element by element";
  return concat({"matrices of ", in_words(optimizer), " selects other parameters: ",
                 in_quotes(first), " is updated ", was_matrix ? whole : single,
                 " in the checkpoint and ", was_matrix ? single : whole, " now",
                 count > 1 ? concat({"; parameters that differ: ", count}) : ""});
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
    auto const optimizer = std::ranges::find(now, "optimizer", &pair::first);
    if (name == "matrices" && found != now.end() && optimizer != now.end()) {
      auto text = detail::difference_of_roles(optimizer->second, value, found->second);
      if (!text.empty()) out.push_back(std::move(text));
      continue;
    }
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
