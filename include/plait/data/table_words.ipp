// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/data/table_words.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"
#include "plait/core/read_number.hpp"

namespace plait::detail {

// Returns a cell without the blanks at its ends.
PLAIT_DECL std::string_view without_blanks(std::string_view cell) {
  constexpr std::string_view blanks = " \t";
  auto const first = cell.find_first_not_of(blanks);
  if (first == cell.npos) return {};
  return cell.substr(first, cell.find_last_not_of(blanks) + 1 - first);
}

PLAIT_DECL std::optional<double> number_of_cell(std::string_view cell) {
  cell = without_blanks(cell);
  if (cell.empty()) return std::numeric_limits<double>::quiet_NaN();
  if (cell.size() > 1 && cell[0] == '+' && cell[1] != '-') cell.remove_prefix(1);
  return number_of_text(cell);
}

PLAIT_DECL missing_cells::missing_cells(std::vector<std::string> const& words) : words_(words) {
  for (auto& word : words_) word = without_blanks(word);
}

PLAIT_DECL bool missing_cells::lists(std::string_view cell) const {
  return !words_.empty() &&
         std::find(words_.begin(), words_.end(), without_blanks(cell)) != words_.end();
}

PLAIT_DECL bool missing_cells::has(std::string_view cell) const {
  auto const number = number_of_cell(cell);
  return (number && std::isnan(*number)) || lists(cell);
}

// Sorts words by their bytes or, if all of them are numbers, by their values.
PLAIT_DECL void sort_words(std::vector<std::string>& words) {
  bool const numbers = std::all_of(words.begin(), words.end(), [](std::string const& word) {
    return number_of_cell(word).has_value();
  });
  auto const before = [&](std::string const& one, std::string const& other) {
    if (!numbers) return one < other;
    double const a = *number_of_cell(one), b = *number_of_cell(other);
    return a != b ? a < b : one < other;
  };
  std::sort(words.begin(), words.end(), before);
}

PLAIT_DECL word_numbers numbers_of(std::vector<std::string> const& words) {
  word_numbers out;
  for (auto const& word : words) out.emplace(word, out.size());
  return out;
}

PLAIT_DECL std::vector<std::string> ordered_words(word_numbers const& words) {
  std::vector<std::string> out;
  for (auto const& one : words) out.push_back(one.first);
  sort_words(out);
  return out;
}

PLAIT_DECL std::string list_of(std::vector<std::string> const& words) {
  constexpr std::size_t most = 20;
  std::string out;
  for (std::size_t i = 0; i < std::min(most, words.size()); ++i)
    out += (i == 0 ? "" : ", ") + in_quotes(words[i]);
  if (words.size() > most) out += concat({" and ", words.size() - most, " more"});
  return out;
}

}  // namespace plait::detail
