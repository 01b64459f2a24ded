// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/file.hpp"

namespace plait::detail {

/// Returns the end of a message about text that seems to be in one cell: the option for another
/// separator than `now`, if the text has one.
[[gnu::cold]] inline std::string separator_hint(std::string_view text, char now) {
  for (auto const* const one : {"';'", "'\\t'", "'|'", "','"})
    if (char const c = one[1] == '\\' ? '\t' : one[1]; c != now && text.find(c) != text.npos)
      return concat({"; if ", one, " separates the cells, write .separator = ", one});
  return {};
}

/// Rows of cells out of a text: cells end at a separator, rows at a line feed, a carriage return or
/// both. A cell that begins with a quote ends at the next one, and may have separators, ends of
/// lines, and quotes that are written twice. Rows without any byte are passed over. (What csv of
/// Python with strict=True reads.)
///
/// Cost:   memory for one row.
/// Errors: input_error with the file and the line for a quoted cell that does not end, or that is
///         followed by more than a separator.
class csv_reader {
 public:
  csv_reader(std::string_view text, char separator, file_name const& name)
      : text_(text), separator_(separator), name_(name) {
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;  // a byte order mark
  }

  /// Goes to the next row; false if there is none.
  [[nodiscard]] bool next() {
    while (at_ < text_.size() && is_line_end(text_[at_])) pass_line_end();
    if (at_ == text_.size()) return false;
    line_ = next_line_;
    row_.clear();
    ends_.clear();
    for (;;) {
      if (at_ < text_.size() && text_[at_] == '"') take_quoted();
      else take_bare();
      ends_.push_back(row_.size());
      if (at_ == text_.size()) return true;
      if (text_[at_] != separator_) break;
      ++at_;
    }
    pass_line_end();
    return true;
  }

  /// The line, from 1 on, in which the row begins.
  [[nodiscard]] std::size_t line() const { return line_; }

  [[nodiscard]] std::size_t cells() const { return ends_.size(); }
  /// Valid up to the next row.
  [[nodiscard]] std::string_view cell(std::size_t i) const {
    std::size_t const begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(row_).substr(begin, ends_[i] - begin);
  }

  [[noreturn]] void refuse(std::string const& what) const {
    name_.refuse_part(concat({"line ", line_}), what);
  }

 private:
  static bool is_line_end(char c) { return c == '\n' || c == '\r'; }

  void pass_line_end() {
    at_ += text_.substr(at_, 2) == "\r\n" ? 2 : 1;
    ++next_line_;
  }

  void take_bare() {
    std::size_t end = at_;
    while (end < text_.size() && text_[end] != separator_ && !is_line_end(text_[end])) ++end;
    row_ += text_.substr(at_, end - at_);
    at_ = end;
  }

  void take_quoted() {
    std::size_t const first_line = next_line_;
    ++at_;
    for (;;) {
      auto const end = text_.find('"', at_);
      auto const part = text_.substr(at_, end == text_.npos ? end : end - at_);
      count_lines(part);
      if (end == text_.npos) {
        line_ = first_line;
        refuse(concat({"begins a quoted cell that does not end (cell ", ends_.size() + 1, ")"}));
      }
      row_ += part;
      at_ = end + 1;
      if (at_ == text_.size() || text_[at_] != '"') break;
      row_ += '"';
      ++at_;
    }
    if (at_ == text_.size() || text_[at_] == separator_ || is_line_end(text_[at_])) return;
    line_ = next_line_;
    refuse(concat({"has more behind the quote that ends cell ", ends_.size() + 1,
                   separator_hint(text_.substr(at_, 1), separator_)}));
  }

  void count_lines(std::string_view part) {
    for (std::size_t i = 0; i < part.size(); ++i)
      if (part[i] == '\n' ? i == 0 || part[i - 1] != '\r' : part[i] == '\r') ++next_line_;
  }

  std::string_view text_;
  char separator_;
  file_name const& name_;
  std::size_t at_ = 0, line_ = 1, next_line_ = 1;
  std::string row_;                // the cells, one behind the other
  std::vector<std::size_t> ends_;  // of each in row_
};

}  // namespace plait::detail
