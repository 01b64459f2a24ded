// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// A value that was read from the system, or the reason why it is unknown.
///
/// Example (tests/doctor/system_files_test.cpp reading):
///     plait::ext::system_files const system;  // the files of this machine
///     auto const threads = system.number("/proc/sys/kernel/threads-max");
///     if (threads.is_known()) std::printf("%llu\n", (unsigned long long)threads.value());
///     else std::printf("%s\n", threads.problem().c_str());  // such as "/proc/...: missing"
template <class T>
class reading {
 public:
  reading() = default;
  reading(T value) : value_(std::move(value)) {}  // NOLINT: implicit

  /// Returns an unknown value; `problem` says why, for example "/proc/stat: missing".
  [[nodiscard]] static reading unknown(std::string problem) {
    reading out;
    out.problem_ = std::move(problem);
    return out;
  }

  [[nodiscard]] bool is_known() const { return value_.has_value(); }
  /// The value; it must be known.
  [[nodiscard]] T const& value() const { return *value_; }
  [[nodiscard]] T& value() { return *value_; }
  /// Returns the reason why the value is unknown; "" if it is known.
  [[nodiscard]] std::string problem() const { return is_known() ? std::string() : problem_; }

  friend bool operator==(reading const&, reading const&) = default;

 private:
  std::optional<T> value_{};
  std::string problem_ = "not read";
};

/// The size of a file system in bytes, and the bytes that this process may still use.
struct file_system_space {
  std::uint64_t bytes = 0, free_bytes = 0;
  friend bool operator==(file_system_space const&, file_system_space const&) = default;
};

/// Reads the text files with which a system describes itself, such as the files of /proc and /sys.
///
/// Paths are absolute, such as "/proc/stat". The files are looked up below a root folder, so that a
/// test can give a tree of its own files. Nothing is written.
///
/// Cost:    one open(), read() and close() for a file.
/// Errors:  none except std::bad_alloc: if a file cannot be read, the result says why, as
///          "/proc/stat: missing", "...: not permitted", "...: garbage: 'abc' is not a number", or
///          the system's message.
/// Threads: any.
class system_files {
 public:
  /// The greatest size of an ordinary file; a longer file counts as garbage.
  static constexpr std::size_t usual_bytes = std::size_t{64} * 1024;
  /// The greatest size of a file that has lines for each processor or for each memory mapping.
  static constexpr std::size_t most_bytes = std::size_t{16} * 1024 * 1024;

  explicit system_files(std::string root = "/") : root_(std::move(root)) {}

  /// Returns the text of a regular file that has at most `most` bytes.
  [[nodiscard]] reading<std::string> text(std::string const& path,
                                          std::size_t most = usual_bytes) const;
  /// Returns the first line of a file without blanks at its ends; an empty line counts as garbage.
  [[nodiscard]] reading<std::string> line(std::string const& path) const;
  /// Returns the number in the first line of a file, which consists of decimal digits.
  [[nodiscard]] reading<std::uint64_t> number(std::string const& path) const;
  /// Returns the text of a symbolic link, which need not refer to a file that exists.
  [[nodiscard]] reading<std::string> link(std::string const& path) const;
  /// Returns the names in a folder, sorted.
  [[nodiscard]] reading<std::vector<std::string>> names(std::string const& path) const;
  [[nodiscard]] reading<file_system_space> space(std::string const& path) const;
  [[nodiscard]] bool has(std::string const& path) const;

 private:
  [[nodiscard]] std::string below_root(std::string const& path) const { return root_ + path; }

  std::string root_;
};

}  // namespace plait::ext

namespace plait::detail::doctor {

/// Returns the problem of a file whose text is not as expected: "PATH: garbage: WHY".
[[nodiscard]] [[gnu::cold]] std::string garbage_in(std::string const& path, std::string_view why);

/// Returns the problem of a file that could not be opened or read, by the system's error number.
[[nodiscard]] [[gnu::cold]] std::string problem_of(std::string const& path, int code);

/// Removes blanks, tabs and ends of lines at both ends.
[[nodiscard]] std::string_view without_blanks(std::string_view text);

/// Removes the text in front of the first `end`, and `end` itself, from `rest`, and returns the
/// text without `end`. If `rest` has no `end`, takes all of it.
[[nodiscard]] std::string_view take_until(std::string_view& rest, char end);

/// Removes the next word from `rest` and returns it; "" if there is none. Blanks and tabs separate
/// words.
[[nodiscard]] std::string_view take_word(std::string_view& rest);

/// Returns the number in a text of decimal digits; nullopt for any other text, and for numbers
/// greater than 2^64 - 1.
[[nodiscard]] std::optional<std::uint64_t> whole_number(std::string_view text);

/// The greatest number of a processor that plait accepts; Linux has at most 8192 processors.
inline constexpr int greatest_cpu = 65'535;

/// Returns true if a list has at least one processor and is sorted without repetition, as cpu_list
/// returns it.
[[nodiscard]] bool is_list_of_cpus(std::vector<int> const& cpus);

/// Reads a list of processors as the kernel writes it, "0-3,8"; the result is sorted. `path` is the
/// name in the problem of a text that is not such a list.
[[nodiscard]] reading<std::vector<int>> cpu_list(std::string_view text, std::string const& path);

/// Returns the text after `key` and a colon, without blanks, from a text of lines "key: value" such
/// as /proc/self/status; nullopt if no line has the key.
[[nodiscard]] std::optional<std::string_view> value_of_key(std::string_view text,
                                                           std::string_view key);

/// Returns the number in the line with this key, times 1024 if " kB" follows the number. `path`:
/// the name of the file in the reason why the result is unknown.
[[nodiscard]] reading<std::uint64_t> bytes_of_key(reading<std::string> const& text,
                                                  std::string_view key, std::string const& path);

}  // namespace plait::detail::doctor

#if PLAIT_HEADER_ONLY
#include "plait/doctor/system_files.ipp"
#endif
