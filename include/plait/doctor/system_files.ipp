// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/doctor/system_files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <system_error>

#include "plait/core/concat.hpp"
#include "plait/core/file.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail::doctor {

PLAIT_DECL std::string garbage_in(std::string const& path, std::string_view why) {
  return concat({escaped(path), ": garbage: ", why});
}

PLAIT_DECL std::string problem_of(std::string const& path, int code) {
  if (code == ENOENT || code == ENOTDIR) return concat({escaped(path), ": missing"});
  if (code == EACCES || code == EPERM) return concat({escaped(path), ": not permitted"});
  return concat({escaped(path), ": ", std::generic_category().message(code)});
}

PLAIT_DECL std::string_view without_blanks(std::string_view text) {
  constexpr char const* blanks = " \t\r\n";
  auto const first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

PLAIT_DECL std::string_view take_until(std::string_view& rest, char end) {
  auto const at = rest.find(end);
  auto const out = rest.substr(0, at);
  rest.remove_prefix(at == std::string_view::npos ? rest.size() : at + 1);
  return out;
}

PLAIT_DECL std::string_view take_word(std::string_view& rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
  auto const out = rest.substr(0, rest.find_first_of(" \t"));
  rest.remove_prefix(out.size());
  return out;
}

PLAIT_DECL std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t out = 0;
  auto const [end, problem] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (text.empty() || problem != std::errc{} || end != text.data() + text.size())
    return std::nullopt;
  return out;
}

PLAIT_DECL bool is_list_of_cpus(std::vector<int> const& cpus) {
  bool const is_ascending = std::adjacent_find(cpus.begin(), cpus.end(),
                                               [](int a, int b) { return a >= b; }) == cpus.end();
  return !cpus.empty() && is_ascending && cpus.front() >= 0 && cpus.back() <= greatest_cpu;
}

PLAIT_DECL reading<std::vector<int>> cpu_list(std::string_view text, std::string const& path) {
  constexpr auto most = static_cast<std::uint64_t>(greatest_cpu);
  auto const refused = [&] {
    return reading<std::vector<int>>::unknown(
        garbage_in(path, concat({in_quotes(text), " is not a list of processors"})));
  };
  std::vector<int> out;
  auto rest = without_blanks(text);
  while (!rest.empty()) {
    auto part = take_until(rest, ',');
    bool const is_range = part.find('-') != std::string_view::npos;
    auto const first = whole_number(take_until(part, '-'));
    auto const last = is_range ? whole_number(part) : first;
    if (!first || !last || *first > *last || *last > most) return refused();
    // Without this limit, a text that repeats a range could need any amount of memory.
    if (out.size() + (*last - *first) > most) return refused();
    for (auto cpu = *first; cpu <= *last; ++cpu) out.push_back(static_cast<int>(cpu));
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

PLAIT_DECL std::optional<std::string_view> value_of_key(std::string_view text,
                                                        std::string_view key) {
  while (!text.empty()) {
    auto line = take_until(text, '\n');
    if (without_blanks(take_until(line, ':')) == key) return without_blanks(line);
  }
  return std::nullopt;
}

PLAIT_DECL reading<std::uint64_t> bytes_of_key(reading<std::string> const& text,
                                               std::string_view key, std::string const& path) {
  using result = reading<std::uint64_t>;
  if (!text.is_known()) return result::unknown(text.problem());
  auto const found = value_of_key(text.value(), key);
  if (!found) return result::unknown(garbage_in(path, concat({"there is no line '", key, "'"})));
  auto words = *found;
  auto const number = whole_number(take_word(words));
  bool const is_in_kb = without_blanks(words) == "kB";
  if (!number || (is_in_kb && *number > ~std::uint64_t{0} / 1024) || (!is_in_kb && !words.empty()))
    return result::unknown(
        garbage_in(path, concat({key, " is ", in_quotes(*found), ", not a number of kB"})));
  return *number * (is_in_kb ? 1024 : 1);
}

// Reads at most `most` + 1 bytes. Returns the system's error number, or 0.
PLAIT_DECL int read_to_end(int descriptor, std::string& out, std::size_t most) {
  constexpr std::size_t step = 4096;
  while (out.size() <= most) {
    auto const filled = out.size();
    out.resize(filled + std::min(step, most + 1 - filled));
    auto const got = ::read(descriptor, out.data() + filled, out.size() - filled);
    int const code = got < 0 ? errno : 0;
    out.resize(filled + static_cast<std::size_t>(std::max<::ssize_t>(got, 0)));
    if (code != 0 && code != EINTR) return code;
    if (got == 0) return 0;
  }
  return 0;
}

struct close_folder {
  void operator()(::DIR* of) const { ::closedir(of); }
};

}  // namespace plait::detail::doctor

namespace plait::ext {

PLAIT_DECL reading<std::string> system_files::text(std::string const& path,
                                                   std::size_t most) const {
  using result = reading<std::string>;
  auto const full = below_root(path);
  // The kind is checked before open(), because opening a pipe or a device may have an effect.
  struct stat status{};
  if (::stat(full.c_str(), &status) != 0)
    return result::unknown(detail::doctor::problem_of(path, errno));
  if (!S_ISREG(status.st_mode))
    return result::unknown(detail::doctor::garbage_in(path, "it is not a regular file"));
  detail::file_descriptor const file(
      ::open(full.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  std::string out;
  int const code = file.get() < 0 ? errno : detail::doctor::read_to_end(file.get(), out, most);
  if (code != 0) return result::unknown(detail::doctor::problem_of(path, code));
  if (out.size() > most)
    return result::unknown(
        detail::doctor::garbage_in(path, concat({"it has more than ", most, " bytes"})));
  return out;
}

PLAIT_DECL reading<std::string> system_files::line(std::string const& path) const {
  auto const all = text(path);
  if (!all.is_known()) return all;
  auto const first = all.value().substr(0, all.value().find('\n'));
  auto const out = detail::doctor::without_blanks(first);
  if (out.empty())
    return reading<std::string>::unknown(detail::doctor::garbage_in(path, "it is empty"));
  return std::string(out);
}

PLAIT_DECL reading<std::uint64_t> system_files::number(std::string const& path) const {
  using result = reading<std::uint64_t>;
  auto const text = line(path);
  if (!text.is_known()) return result::unknown(text.problem());
  if (auto const out = detail::doctor::whole_number(text.value())) return *out;
  return result::unknown(detail::doctor::garbage_in(
      path, concat({detail::in_quotes(text.value()), " is not a whole number from 0 on"})));
}

PLAIT_DECL reading<std::string> system_files::link(std::string const& path) const {
  using result = reading<std::string>;
  constexpr std::size_t most = 4096;  // the greatest length of a path in Linux
  std::string out(most, '\0');
  auto const size = ::readlink(below_root(path).c_str(), out.data(), out.size());
  int const code = size < 0 ? errno : 0;
  if (code == EINVAL)
    return result::unknown(detail::doctor::garbage_in(path, "it is not a symbolic link"));
  if (code != 0) return result::unknown(detail::doctor::problem_of(path, code));
  out.resize(static_cast<std::size_t>(size));
  return out;
}

PLAIT_DECL reading<std::vector<std::string>> system_files::names(std::string const& path) const {
  using result = reading<std::vector<std::string>>;
  constexpr std::size_t most = 65'536;
  std::unique_ptr<::DIR, detail::doctor::close_folder> const folder(
      ::opendir(below_root(path).c_str()));
  if (folder == nullptr) return result::unknown(detail::doctor::problem_of(path, errno));
  std::vector<std::string> out;
  for (;;) {
    errno = 0;
    auto const* const entry = ::readdir(folder.get());  // NOLINT: the stream is this thread's own
    if (entry == nullptr && errno != 0)
      return result::unknown(detail::doctor::problem_of(path, errno));
    if (entry == nullptr) break;
    std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (out.size() == most)
      return result::unknown(
          detail::doctor::garbage_in(path, concat({"it has more than ", most, " names"})));
    out.push_back(std::move(name));
  }
  std::sort(out.begin(), out.end());
  return out;
}

PLAIT_DECL reading<file_system_space> system_files::space(std::string const& path) const {
  struct statvfs found{};
  if (::statvfs(below_root(path).c_str(), &found) != 0)
    return reading<file_system_space>::unknown(detail::doctor::problem_of(path, errno));
  std::uint64_t const unit = found.f_frsize;
  return file_system_space{.bytes = found.f_blocks * unit, .free_bytes = found.f_bavail * unit};
}

PLAIT_DECL bool system_files::has(std::string const& path) const {
  struct stat unused{};
  return ::stat(below_root(path).c_str(), &unused) == 0;
}

}  // namespace plait::ext
