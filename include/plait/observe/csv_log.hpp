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

/// Rows of comma-separated values: a first row of names, then one row for each step, in the fewest
/// digits that give the same number again. A row is whole when it is written; where a file is
/// appended to whose last row is not, since its program was killed, that row goes.
///
/// Errors: input_error if a row has other names than the first, or a file that is appended to has
///         others, or two names are alike, or another log writes the file.
class csv_writer {
 public:
  [[gnu::cold]] csv_writer(std::string const& path, int rank, log_options const& how);

  void write(std::int64_t step, std::vector<logged_number> const& numbers);

 private:
  using file = detail::growing_file;
  static constexpr char const* kind = "log";

  [[nodiscard]] [[gnu::cold]] std::string first_line() const;

  /// Behind the last end of a line is what a killed program has not written to its end.
  [[gnu::cold]] void cut_last_row(detail::open_file const& there) const;

  /// The kept rows become a new file: a process that still writes to the old one, having been given
  /// up when it hung, does no harm. Rows stand in the order of their steps.
  [[gnu::cold]] void cut_from(std::int64_t step) const;

  void require_different(std::vector<logged_number> const& numbers) const;

  /// As a table has a name with a comma or a quotation mark in it (RFC 4180).
  static std::string quoted(std::string const& name);

  static std::string text_of(double value);

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

#if PLAIT_HEADER_ONLY
#include "plait/observe/csv_log.ipp"
#endif
