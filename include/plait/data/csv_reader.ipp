// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/data/csv_reader.hpp"

#include "plait/core/concat.hpp"

namespace plait::detail {

PLAIT_DECL std::string separator_hint(std::string_view text, char now) {
  for (auto const* const one : {"';'", "'\\t'", "'|'", "','"})
    if (char const c = one[1] == '\\' ? '\t' : one[1]; c != now && text.find(c) != text.npos)
      return concat({"; if ", one, " separates the cells, write .separator = ", one});
  return {};
}

PLAIT_DECL csv_reader::csv_reader(std::string_view text, char separator, file_name const& name)
    : text_(text), separator_(separator), name_(name) {
  if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;  // byte order mark
}

PLAIT_DECL bool csv_reader::next() {
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

PLAIT_DECL std::string_view csv_reader::cell(std::size_t i) const {
  std::size_t const begin = i == 0 ? 0 : ends_[i - 1];
  return std::string_view(row_).substr(begin, ends_[i] - begin);
}

PLAIT_DECL void csv_reader::refuse(std::string const& what) const {
  name_.refuse_part(concat({"line ", line_}), what);
}

PLAIT_DECL void csv_reader::pass_line_end() {
  at_ += text_.substr(at_, 2) == "\r\n" ? 2 : 1;
  ++next_line_;
}

PLAIT_DECL void csv_reader::take_bare() {
  std::size_t end = at_;
  while (end < text_.size() && text_[end] != separator_ && !is_line_end(text_[end])) ++end;
  row_ += text_.substr(at_, end - at_);
  at_ = end;
}

PLAIT_DECL void csv_reader::take_quoted() {
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
  refuse(concat({"has text after the quotation mark that ends cell ", ends_.size() + 1,
                 separator_hint(text_.substr(at_, 1), separator_)}));
}

PLAIT_DECL void csv_reader::count_lines(std::string_view part) {
  for (std::size_t i = 0; i < part.size(); ++i)
    if (part[i] == '\n' ? i == 0 || part[i - 1] != '\r' : part[i] == '\r') ++next_line_;
}

}  // namespace plait::detail
