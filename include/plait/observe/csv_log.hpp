// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plait/core/file.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/observe/training_log.hpp"

namespace plait::ext {

/// Writes rows of comma-separated values to a file: a first row of names, then one row for each
/// step. Numbers are written with the fewest digits that read back as the same number. Each row is
/// written by one call. If a killed program has left an incomplete last row, appending to the file
/// removes it.
///
/// Errors: input_error if the names of a row differ from the first row's, if two names are equal,
///         if the file to which rows are appended has other names, or if another log is writing the
///         file.
class csv_writer {
 public:
  [[gnu::cold]] csv_writer(std::string const& path, int rank, log_options const& how);

  void write(std::int64_t step, std::vector<logged_number> const& numbers);

 private:
  using file = detail::growing_file;
  static constexpr char const* kind = "log";

  [[nodiscard]] [[gnu::cold]] std::string first_line() const;

  /// Removes an incomplete last row, that is, the text after the last end of a line. A program that
  /// was killed while it wrote leaves such a row.
  [[gnu::cold]] void cut_last_row(detail::open_file const& there) const;

  /// Copies the rows before `step`, sorted by step, to a new file that replaces the old one. If a
  /// hung process still writes to the old file, the new file is not affected.
  [[gnu::cold]] void cut_from(std::int64_t step) const;

  void require_different(std::vector<logged_number> const& numbers) const;

  /// Returns a name in quotation marks if the name contains a comma or a quotation mark (RFC 4180).
  static std::string quoted(std::string const& name);

  static std::string text_of(double value);

  std::string path_;
  std::optional<file> file_;
  std::string header_;
};

}  // namespace plait::ext

namespace plait {

/// Writes a log as a CSV file: `plait::csv_log log(rank, "run.csv");
/// log.write(trainer.step(batch));`.
///
/// Example (tests/reference/names_in_use_test.cpp csv_log):
///     plait::csv_log log(rank, "run.csv");
///     for (auto const& batch : batches) log.write(trainer.step(batch));
using csv_log = training_log<ext::csv_writer>;

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/observe/csv_log.ipp"
#endif
