// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/file.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/number_range.hpp"
#include "plait/core/quote.hpp"
#include "plait/observe/training_log.hpp"

namespace plait::ext {

/// Rows of comma-separated values: a first row of names, then one row for each step, in the fewest
/// digits that give the same number again. A row is whole when it is written; where a file is
/// appended to whose last row is not, since its program was killed, that row goes.
///
/// Errors: input_error if a row has other names than the first, or a file that is appended to has
///         others, or two names are alike, or another log writes the file.
class csv_writer {
 public:
  [[gnu::cold]] csv_writer(std::string const& path, int rank, log_options const& how)
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

  void write(std::int64_t step, std::vector<logged_number> const& numbers) {
    std::string names = "step", row = std::to_string(step);
    for (auto const& number : numbers) {
      names += ',' + quoted(number.name);
      row += ',' + text_of(number.value);
    }
    if (names != header_) require_different(numbers);
    if (header_.empty()) row = (header_ = names) + '\n' + row;
    else if (names != header_)
      file_->name().refuse(
          concat({"has the columns ", header_, ", the row of step ", step, " has ", names,
                  "; write to a log of its own what comes at other steps, and give one "
                  "that is appended to the same term_names"}));
    file_->append(row + '\n');
  }

 private:
  using file = detail::growing_file;
  static constexpr char const* kind = "log";

  [[nodiscard]] [[gnu::cold]] std::string first_line() const {
    detail::open_file const there(path_, kind);
    std::string text(std::min<std::size_t>(there.size(), 1 << 16), ' ');
    there.read(std::as_writable_bytes(std::span(text)), 0);
    if (text.empty()) return text;
    auto const end = text.find('\n');
    if (end == std::string::npos || text.rfind("step,", 0) != 0)
      there.name().refuse(
          "is not a log that can be appended to: it does not begin with a row of "
          "names, step first");
    cut_last_row(there);
    return text.substr(0, end);
  }

  /// Behind the last end of a line is what a killed program has not written to its end.
  [[gnu::cold]] void cut_last_row(detail::open_file const& there) const {
    std::size_t size = there.size();
    std::byte last{};
    while (size > 0) {
      there.read({&last, 1}, size - 1);
      if (last == std::byte{'\n'}) break;
      --size;
    }
    if (size < there.size()) detail::cut_file(path_, kind, size);
  }

  /// The kept rows become a new file: a process that still writes to the old one, having been given
  /// up when it hung, does no harm. Rows stand in the order of their steps.
  [[gnu::cold]] void cut_from(std::int64_t step) const {
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

  void require_different(std::vector<logged_number> const& numbers) const {
    for (std::size_t i = 0; i < numbers.size(); ++i)
      for (std::size_t k = 0; k < i; ++k)
        if (numbers[i].name == numbers[k].name)
          file_->name().refuse(
              concat({"would have two columns ", detail::in_quotes(numbers[i].name)}));
  }

  /// As a table has a name with a comma or a quotation mark in it (RFC 4180).
  static std::string quoted(std::string const& name) {
    if (name.find_first_of(",\"\r\n") == std::string::npos) return name;
    std::string out = "\"";
    for (char const letter : name) out += std::string(letter == '"' ? 2 : 1, letter);
    return out + '"';
  }

  static std::string text_of(double value) {
    char digits[32];
    auto const end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    return {digits, end};
  }

  std::string path_;
  std::optional<file> file_;
  std::string header_;
};

}  // namespace plait::ext

namespace plait {

/// `plait::csv_log log(rank, "run.csv"); log.write(trainer.step(batch));`
///
/// Example (tests/reference/names_in_use_test.cpp csv_log):
///     plait::csv_log log(rank, "run.csv");
///     for (auto const& batch : batches) log.write(trainer.step(batch));
using csv_log = training_log<ext::csv_writer>;

}  // namespace plait
