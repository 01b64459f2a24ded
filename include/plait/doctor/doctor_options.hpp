// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "plait/core/clock.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/doctor/finding.hpp"
#include "plait/doctor/machine.hpp"

namespace plait::ext {

/// The options of the program plait-doctor. doctor_help() describes them.
struct doctor_options {
  /// The parts of a measurement, which `--only` selects.
  struct parts {
    bool products = true, memory = true, links = true, settings = true;
    friend bool operator==(parts const&, parts const&) = default;
  };

  /// The greatest values of options: the number of ranks, the bytes of the machine's name, and the
  /// seconds for which a process waits for others.
  static constexpr int most_ranks = 65536;
  static constexpr std::size_t most_name_bytes = 200;
  static constexpr int most_timeout_seconds = 86'400;

  bool full = false;       ///< true for --full, false for --quick
  std::string store{};     ///< path of the machine file to write; "" for none
  std::string compare{};   ///< path of an earlier machine file; "" for none
  std::string svg{};       ///< path of the picture of the links; "" for none
  std::string products{};  ///< path of a list of further products; "" for none
  parts only{};
  bool strict = false, json = false, help = false;
  std::chrono::milliseconds timeout{30'000};
  int ranks = 0;       ///< the number of ranks; 0: the backend decides
  std::string name{};  ///< the name of the machine; "": the name of rank 0's host

  friend bool operator==(doctor_options const&, doctor_options const&) = default;
};

/// Reads the arguments of main(); the first word, the name of the program, is ignored.
///
/// Errors:  input_error, one sentence, for an unknown or repeated option, a missing or wrong value,
///          and options that contradict each other. The function does not check that files exist.
/// Threads: any.
///
/// Example (tests/doctor/doctor_options_test.cpp options):
///     char const* const words[]{"plait-doctor-mpi", "--full", "--store", "machine.json"};
///     auto const options = plait::ext::doctor_options_of(4, words);
///     // options.full is true, and options.store is "machine.json"
[[nodiscard]] [[gnu::cold]] doctor_options doctor_options_of(int count, char const* const* words);

/// Returns the text of `--help`: all options, and the exit codes.
[[nodiscard]] [[gnu::cold]] std::string_view doctor_help();

/// Reads the text of a list of products, with a line "ROWS COLUMNS INNER none|a|b" for each
/// product. The last word names the transposed operand. '#' begins a comment, which ends with the
/// line.
///
/// `path`: the name of the file in error messages.
///
/// Units:  elements, from 1 to 10^12.
/// Errors: input_error that names the file and the line and says what to write, for a wrong line,
///         for a product that the list has twice, for a list without products, and for a list of
///         more than 4096 lines or 1 MiB.
///
/// Example (tests/doctor/doctor_options_test.cpp products):
///     std::string const text =
///         "# the head of a model\n"
///         "4096 50304 768 none\n"
///         "4096 768 50304 b  # the gradient of its input\n";
///     auto const shapes = plait::ext::product_shapes_of(text, "shapes.txt");
///     // shapes[1].inner is 50304
[[nodiscard]] [[gnu::cold]] std::vector<product_shape> product_shapes_of(std::string const& text,
                                                                         std::string const& path);

/// Returns the exit code of the program for its findings: 0 if there are none or only notes, 1 if
/// something is slower than it should be, 3 if a job would fail. If `is_strict`, notes have the
/// code 1, too.
[[nodiscard]] [[gnu::cold]] int exit_code_of(std::vector<finding> const& all, bool is_strict);

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/doctor/doctor_options.ipp"
#endif
