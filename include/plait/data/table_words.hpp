// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plait/core/header_only.hpp"

namespace plait::detail {

/// Reads a cell as a number. Returns nan if the cell is empty, and nullopt if its text is not a
/// number.
std::optional<double> number_of_cell(std::string_view cell);

/// The cells of a table that mark a missing value: empty cells, the word nan, and the words in
/// `table_options::missing_words`.
class missing_cells {
 public:
  explicit missing_cells(std::vector<std::string> const& words);

  [[nodiscard]] bool lists(std::string_view cell) const;
  [[nodiscard]] bool has(std::string_view cell) const;

 private:
  std::vector<std::string> words_;
};

/// Maps each word of a column to its number.
using word_numbers = std::map<std::string, std::size_t, std::less<>>;

word_numbers numbers_of(std::vector<std::string> const& words);

/// Returns the words of a column in the order of their numbers.
std::vector<std::string> ordered_words(word_numbers const& words);

/// Returns a part of an error message that lists the first twenty words and states the number of
/// the other words.
[[gnu::cold]] std::string list_of(std::vector<std::string> const& words);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/data/table_words.ipp"
#endif
