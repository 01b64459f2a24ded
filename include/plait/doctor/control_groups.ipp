// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/doctor/control_groups.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail::doctor {

// The kernel writes a blank, tab, end of line or '\' in a path as '\' and three octal digits.
PLAIT_DECL std::string path_of_mount(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto const digit = [&](std::size_t at) { return at < text.size() ? text[at] - '0' : -1; };
    int const a = digit(i + 1), b = digit(i + 2), c = digit(i + 3);
    bool const is_escape =
        text[i] == '\\' && a >= 0 && a <= 3 && b >= 0 && b <= 7 && c >= 0 && c <= 7;
    out += is_escape ? static_cast<char>(a * 64 + b * 8 + c) : text[i];
    if (is_escape) i += 3;
  }
  return out;
}

PLAIT_DECL reading<std::vector<mount>> mounts_in(std::string const& text, std::string const& path) {
  std::vector<mount> out;
  std::string_view rest = text;
  while (!rest.empty()) {
    auto const whole = take_until(rest, '\n');
    auto line = whole;
    if (without_blanks(line).empty()) continue;
    mount found;
    for (int i = 0; i < 3; ++i) static_cast<void>(take_word(line));
    found.folder = path_of_mount(take_word(line));
    found.at = path_of_mount(take_word(line));
    // A list of optional words follows the options of the mount; it ends with "-".
    for (auto word = take_word(line); word != "-"; word = take_word(line))
      if (word.empty())
        return reading<std::vector<mount>>::unknown(
            garbage_in(path, concat({in_quotes(whole), " is not a mount"})));
    found.type = take_word(line);
    static_cast<void>(take_word(line));
    found.options = take_word(line);
    out.push_back(std::move(found));
  }
  return out;
}

// Returns true if `name` is in a list that is separated by commas.
PLAIT_DECL bool is_listed(std::string_view list, std::string_view name) {
  while (!list.empty())
    if (take_until(list, ',') == name) return true;
  return false;
}

// Returns the folders from the group `group` up to the mount. The group's path is relative to the
// root of all groups, of which a container may see only the part below its own group.
PLAIT_DECL std::vector<std::string> folders_up_to(mount const& at, std::string group,
                                                  system_files const& files) {
  bool const is_below = group.starts_with(at.folder) &&
                        (group.size() == at.folder.size() || group[at.folder.size()] == '/');
  if (at.folder != "/" && is_below) group.erase(0, at.folder.size());
  // A group outside the visible part has a path such as "/../../other". A name may contain dots.
  bool const is_outside = concat({group, "/"}).find("/../") != std::string::npos;
  if (is_outside || !files.has(at.at + group)) group = "/";
  std::vector<std::string> out;
  while (!group.empty() && group != "/") {
    out.push_back(at.at + group);
    group.erase(std::min(group.rfind('/'), group.size()));
  }
  out.push_back(at.at);
  return out;
}

PLAIT_DECL reading<group_folders> groups_of(system_files const& files,
                                            std::string_view controller) {
  using result = reading<group_folders>;
  std::string const mounts_path = "/proc/self/mountinfo", group_path = "/proc/self/cgroup";
  auto const text = files.text(mounts_path, system_files::most_bytes);
  if (!text.is_known()) return result::unknown(text.problem());
  auto const mounts = mounts_in(text.value(), mounts_path);
  if (!mounts.is_known()) return result::unknown(mounts.problem());
  mount const *first = nullptr, *second = nullptr;
  for (auto const& each : mounts.value()) {
    if (each.type == "cgroup" && is_listed(each.options, controller)) first = &each;
    if (each.type == "cgroup2") second = &each;
  }
  if (first == nullptr && second == nullptr) return group_folders{};

  auto const groups = files.text(group_path);
  if (!groups.is_known()) return result::unknown(groups.problem());
  std::optional<std::string> in_first, in_second;
  std::string_view rest = groups.value();
  while (!rest.empty()) {
    auto line = take_until(rest, '\n');
    auto const whole = line;
    if (without_blanks(line).empty()) continue;
    auto const number = whole_number(take_until(line, ':'));
    auto const controllers = take_until(line, ':');
    if (!number || !line.starts_with('/'))
      return result::unknown(
          garbage_in(group_path, concat({in_quotes(whole), " is not a control group"})));
    if (*number == 0 && controllers.empty()) in_second = std::string(line);
    else if (is_listed(controllers, controller)) in_first = std::string(line);
  }
  if (first != nullptr && in_first)
    return group_folders{.version = 1, .folders = folders_up_to(*first, *in_first, files)};
  if (second != nullptr && in_second)
    return group_folders{.version = 2, .folders = folders_up_to(*second, *in_second, files)};
  return result::unknown(
      garbage_in(group_path, concat({"it has no group of the controller '", controller, "'"})));
}

// Returns the text of a limit, or "" if the folder of a group of version 2 does not have this
// limit: the root of all groups has no limits, and another group has no limits of a controller that
// is off.
PLAIT_DECL reading<std::string> text_of_limit(system_files const& files,
                                              group_folders const& groups,
                                              std::string const& folder, std::string const& name,
                                              std::string_view controller) {
  auto const path = concat({folder, "/", name});
  if (groups.version == 1 || files.has(path)) return files.line(path);
  if (folder == groups.folders.back()) return std::string();
  auto const on = files.text(concat({folder, "/cgroup.controllers"}));
  if (!on.is_known()) return on;
  std::string_view words = on.value();
  words = without_blanks(words);
  while (!words.empty())
    if (take_word(words) == controller) return files.line(path);
  return std::string();
}

// Returns the quota of one group in processors; infinite without a quota.
PLAIT_DECL reading<double> quota_of(system_files const& files, group_folders const& groups,
                                    std::string const& folder) {
  using result = reading<double>;
  constexpr double infinite = std::numeric_limits<double>::infinity();
  std::string quota_text, period_text, path = concat({folder, "/cpu.max"});
  if (groups.version == 1) {
    path = concat({folder, "/cpu.cfs_quota_us"});
    auto const quota = files.line(path);
    if (!quota.is_known()) return result::unknown(quota.problem());
    if (quota.value() == "-1") return infinite;
    auto const period = files.line(concat({folder, "/cpu.cfs_period_us"}));
    if (!period.is_known()) return result::unknown(period.problem());
    quota_text = quota.value(), period_text = period.value();
  } else {
    auto const both = text_of_limit(files, groups, folder, "cpu.max", "cpu");
    if (!both.is_known()) return result::unknown(both.problem());
    if (both.value().empty()) return infinite;
    std::string_view words = both.value();
    quota_text = take_word(words), period_text = take_word(words);
    if (quota_text == "max") return infinite;
  }
  auto const quota = whole_number(quota_text), period = whole_number(period_text);
  if (!quota || !period || *quota == 0 || *period == 0)
    return result::unknown(
        garbage_in(path, concat({in_quotes(concat({quota_text, " ", period_text})),
                                 " is not a quota and a period in microseconds"})));
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

PLAIT_DECL reading<least_limit> least_quota(system_files const& files,
                                            group_folders const& groups) {
  least_limit out{.value = std::numeric_limits<double>::infinity()};
  for (auto const& folder : groups.folders) {
    auto const found = quota_of(files, groups, folder);
    if (!found.is_known()) return reading<least_limit>::unknown(found.problem());
    if (found.value() < out.value) out = {found.value(), folder};
  }
  return out;
}

PLAIT_DECL reading<std::uint64_t> least_memory(system_files const& files,
                                               group_folders const& groups) {
  using result = reading<std::uint64_t>;
  constexpr auto none = std::numeric_limits<std::uint64_t>::max();
  // Version 1 writes the greatest number of whole pages for no limit.
  constexpr auto least_of_none = std::uint64_t{1} << 62;
  std::uint64_t out = none;
  std::string const name = groups.version == 1 ? "memory.limit_in_bytes" : "memory.max";
  for (auto const& folder : groups.folders) {
    auto const text = text_of_limit(files, groups, folder, name, "memory");
    if (!text.is_known()) return result::unknown(text.problem());
    if (text.value().empty() || text.value() == "max") continue;
    auto const bytes = whole_number(text.value());
    if (!bytes)
      return result::unknown(
          garbage_in(concat({folder, "/", name}), concat({in_quotes(text.value()),
                                                          " is not a number of "
                                                          "bytes"})));
    out = std::min(out, *bytes >= least_of_none ? none : *bytes);
  }
  return out;
}

}  // namespace plait::detail::doctor
