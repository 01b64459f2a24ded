// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <variant>

#include <plait/core/error.hpp>
#include <plait/core/quote.hpp>
#include <plait/core/read_number.hpp>

// Reads command lines and checks standard output, for train_gpt and its benchmark.
namespace command_line {

using plait::detail::in_quotes;

/// The target of a number, and the range that the number must be in.
template <class Number>
struct number {
  Number* value = nullptr;
  Number least{}, most{};
};

/// An option such as --steps, and the variable that receives its value. A flag has no value; it
/// sets its variable to true.
struct option {
  std::string_view name;
  std::variant<bool*, std::string*, number<std::int64_t>, number<double>> target;
  char const* backend = nullptr;  ///< the only backend that uses the option; null: all backends
  bool given = false;
};

/// Reads a number from `text`.
///
/// Errors: input_error with the range, if the text is not a number in it.
template <class Number>
void read_number(std::string_view name, std::string_view text, number<Number> const& into) {
  constexpr bool whole = std::is_integral_v<Number>;
  Number value{};
  bool is_number = false;
  if constexpr (whole) {
    auto const [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    is_number = code == std::errc{} && end == text.data() + text.size();
  } else if (auto const found = plait::detail::number_of_text(text)) {
    is_number = true;
    value = *found;
  }
  bool const in_range = value >= into.least && value <= into.most;  // false for NaN
  if (!is_number || !in_range) {
    char range[80];
    if constexpr (whole)
      std::snprintf(range, sizeof range, "%lld to %lld", static_cast<long long>(into.least),
                    static_cast<long long>(into.most));
    else std::snprintf(range, sizeof range, "%g to %g", into.least, into.most);
    throw plait::input_error(std::string(name) + " needs a " + (whole ? "whole " : "") +
                             "number from " + range + ", got " + in_quotes(text));
  }
  *into.value = value;
}

/// Reads the words of main() into the targets and notes which options were given.
///
/// Errors: input_error for an unknown option, a repeated option, and a missing or wrong value. A
///         text that begins with '-' is taken for a misspelt option, not for a value.
inline void parse(std::span<option> options, int count, char const* const* words) {
  for (int i = 1; i < count; ++i) {
    std::string_view const word = words[i];
    auto const found = std::ranges::find(options, word, &option::name);
    if (found == options.end())
      throw plait::input_error("unknown option " + in_quotes(word) + "; see --help");
    std::string const name(found->name);
    if (found->given) throw plait::input_error(name + " is given twice");
    found->given = true;
    if (auto* const* flag = std::get_if<bool*>(&found->target)) {
      **flag = true;
      continue;
    }
    if (++i >= count || *words[i] == '\0') throw plait::input_error(name + " needs a value");
    std::string_view const value = words[i];
    if (auto* const* text = std::get_if<std::string*>(&found->target)) {
      if (value.starts_with('-'))
        throw plait::input_error(name + " needs a value, got " + in_quotes(value) +
                                 ", which looks like an option; a file of this name is './" +
                                 plait::detail::escaped(value) + "'");
      **text = value;
    } else if (auto const* whole = std::get_if<number<std::int64_t>>(&found->target)) {
      read_number(name, value, *whole);
    } else {
      read_number(name, value, std::get<number<double>>(found->target));
    }
  }
}

/// Errors: input_error if an option is given that this backend does not use.
inline void check_backend(std::span<option const> options, std::string_view backend) {
  for (auto const& one : options)
    if (one.given && one.backend != nullptr && backend != one.backend)
      throw plait::input_error(std::string(one.name) + " needs --backend " + one.backend +
                               ", not " + in_quotes(backend));
}

/// Lets writes fail with an error, where a closed pipe or the limit of a file's size would else end
/// the program by a signal. Opens /dev/null for standard files that the caller has closed, so that
/// a file opened later does not become standard input or error.
///
/// Errors: input_error if standard output is closed.
inline void hold_standard_files() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  for (int const descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    if (descriptor == STDOUT_FILENO)
      throw plait::input_error("standard output is closed; open it or redirect it to a file");
    (void)::open("/dev/null", O_RDWR);  // open() returns the lowest free number, which is this one
  }
}

/// Errors: input_error if text that was printed earlier could not be written.
inline void check_output() {
  errno = 0;
  bool const flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0) return;
  throw plait::input_error("standard output cannot be written" +
                           (errno != 0 ? ": " + std::generic_category().message(errno) : ""));
}

}  // namespace command_line
