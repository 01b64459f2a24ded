// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/observe/csv_log.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <span>
#include <system_error>

#include "plait/core/concat.hpp"
#include "plait/core/number_range.hpp"
#include "plait/core/quote.hpp"

namespace plait::ext {

PLAIT_DECL csv_writer::csv_writer(std::string const& path, int rank, log_options const& how)
    : path_(detail::path_of_rank(path, rank)) {
  if (how.from_step)
    detail::require_range("log_options::from_step", static_cast<double>(*how.from_step),
                          number_ranges::at_least_0);
  if (how.append && detail::is_regular_file(path_)) {
    header_ = first_line();
    if (how.from_step) cut_from(*how.from_step);
  }
  file_.emplace(path_, kind, how.append ? file::start::at_end : file::start::empty);
}

PLAIT_DECL void csv_writer::write(std::int64_t step, std::vector<logged_number> const& numbers) {
  std::string names = "step", row = std::to_string(step);
  for (auto const& number : numbers) {
    names += ',' + quoted(number.name);
    row += ',' + text_of(number.value);
  }
  if (names != header_) require_different(numbers);
  if (header_.empty()) row = (header_ = names) + '\n' + row;
  else if (names != header_)
    file_->name().refuse(concat(
        {"has the columns ", header_, ", but the row of step ", step, " has ", names,
         "; write numbers of other steps to another log, and append with the same term_names"}));
  file_->append(row + '\n');
}

PLAIT_DECL std::string csv_writer::first_line() const {
  detail::open_file const there(path_, kind);
  std::string text(std::min<std::size_t>(there.size(), 1 << 16), ' ');
  there.read(std::as_writable_bytes(std::span(text)), 0);
  if (text.empty()) return text;
  auto const end = text.find('\n');
  if (end == std::string::npos || text.rfind("step,", 0) != 0)
    there.name().refuse(
        "is not a log that can be appended to: it does not begin with a row of names, of which the "
        "first is step");
  cut_last_row(there);
  return text.substr(0, end);
}

PLAIT_DECL void csv_writer::cut_last_row(detail::open_file const& there) const {
  std::size_t size = there.size();
  std::byte last{};
  while (size > 0) {
    there.read({&last, 1}, size - 1);
    if (last == std::byte{'\n'}) break;
    --size;
  }
  if (size < there.size()) detail::cut_file(path_, kind, size);
}

PLAIT_DECL void csv_writer::cut_from(std::int64_t step) const {
  detail::open_file const there(path_, kind);
  std::string text(there.size(), ' ');
  there.read(std::as_writable_bytes(std::span(text)), 0);
  auto const* const end = text.data() + text.size();
  auto at = text.find('\n') + 1;
  for (std::int64_t of_row = 0; at < text.size(); at = text.find('\n', at) + 1)
    if (std::from_chars(text.data() + at, end, of_row).ec == std::errc{} && of_row >= step) break;
  detail::partial_file kept(path_, kind);
  kept.write(std::as_bytes(std::span(text).first(at)), 0);
  kept.commit();
}

PLAIT_DECL void csv_writer::require_different(std::vector<logged_number> const& numbers) const {
  for (std::size_t i = 0; i < numbers.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (numbers[i].name == numbers[k].name)
        file_->name().refuse(
            concat({"would have two columns ", detail::in_quotes(numbers[i].name)}));
}

PLAIT_DECL std::string csv_writer::quoted(std::string const& name) {
  if (name.find_first_of(",\"\r\n") == std::string::npos) return name;
  std::string out = "\"";
  for (char const letter : name) out += std::string(letter == '"' ? 2 : 1, letter);
  return out + '"';
}

PLAIT_DECL std::string csv_writer::text_of(double value) {
  char digits[32];
  auto const end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  return {digits, end};
}

}  // namespace plait::ext
