// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "plait/core/file.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// Returns the end of an error message about a row that was read as a single cell. If the text
/// contains a separator other than `now`, this end advises the user to set the option .separator;
/// otherwise it is empty.
[[gnu::cold]] std::string separator_hint(std::string_view text, char now);

/// Splits a text into rows of cells. Cells end at a separator; rows at a line feed, a carriage
/// return or both. A cell that begins with a quotation mark ends at the next quotation mark. Such a
/// cell may contain separators, ends of lines, and quotation marks that are written twice. Empty
/// rows are skipped. Python's csv module with strict=True gives the same cells.
///
/// Cost:   memory for one row.
/// Errors: input_error with the file and the line for a quoted cell that does not end, or that is
///         followed by other text than a separator.
class csv_reader {
 public:
  csv_reader(std::string_view text, char separator, file_name const& name);

  /// Reads the next row. Returns false if there is no further row.
  [[nodiscard]] bool next();

  /// Returns the number of the line in which the row begins, counted from 1.
  [[nodiscard]] std::size_t line() const { return line_; }

  [[nodiscard]] std::size_t cells() const { return ends_.size(); }
  /// Returns the text of a cell, valid until the next call of next().
  [[nodiscard]] std::string_view cell(std::size_t i) const;

  [[noreturn]] void refuse(std::string const& what) const;

 private:
  static bool is_line_end(char c) { return c == '\n' || c == '\r'; }

  void pass_line_end();

  void take_bare();

  void take_quoted();

  void count_lines(std::string_view part);

  std::string_view text_;
  char separator_;
  file_name const& name_;
  std::size_t at_ = 0, line_ = 1, next_line_ = 1;
  std::string row_;                // the text of all cells of the row, concatenated
  std::vector<std::size_t> ends_;  // for each cell, the position of its end in row_
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/data/csv_reader.ipp"
#endif
