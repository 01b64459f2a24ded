// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "plait/checkpoint/disk.hpp"
#include "plait/checkpoint/manifest.hpp"
#include "plait/checkpoint/manifest_rules.hpp"
#include "plait/checkpoint/manifest_text.hpp"
#include "plait/core/error.hpp"
#include "plait/core/file.hpp"
#include "plait/core/quote.hpp"

namespace plait {

namespace detail {

/// What the name of a folder says: step-00000200, or best-00000200 of the best weights, or with one
/// of these and 16 digits behind it.
struct checkpoint_name {
  enum kind { complete, partial, replaced, removing };
  static constexpr std::string_view suffixes[]{"", ".partial-", ".replaced-", ".removing-"};

  std::int64_t step = 0;
  kind what = complete;
  bool is_best = false;

  static std::string of(std::int64_t step, bool is_best = false) {
    char text[32];
    std::snprintf(text, sizeof text, "%s-%08lld", is_best ? "best" : "step",
                  static_cast<long long>(step));
    return text;
  }
  static std::string of(std::int64_t step, kind what, std::string const& digits,
                        bool is_best = false) {
    return of(step, is_best) + std::string(suffixes[what]) + digits;
  }

  static std::optional<checkpoint_name> from(std::string_view name) {
    auto const dot = std::min(name.find('.'), name.size());
    auto const suffix = name.substr(dot);
    checkpoint_name out;
    out.is_best = name.starts_with("best-");
    if (!out.is_best && !name.starts_with("step-")) return std::nullopt;
    constexpr std::size_t start = 5;
    auto const number = name.substr(start, dot - start);
    auto const [end, problem] =
        std::from_chars(number.data(), number.data() + number.size(), out.step);
    if (problem != std::errc{} || out.step < 0 || name.substr(0, dot) != of(out.step, out.is_best))
      return std::nullopt;
    if (suffix.empty()) return out;
    for (kind const what : {partial, replaced, removing})
      if (suffix.starts_with(suffixes[what]) && is_random(suffix.substr(suffixes[what].size()))) {
        out.what = what;
        return out;
      }
    return std::nullopt;
  }

  static std::string digits_of(std::uint64_t number) {
    char digits[20];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
    return digits;
  }
  static bool is_random(std::string_view digits) {
    return digits.size() == 16 &&
           digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  }
};

}  // namespace detail

/// A checkpoint that is in a folder.
struct found_checkpoint {
  std::int64_t step = 0;
  std::filesystem::path path{};
  std::string job{};     ///< of its manifest
  std::string damage{};  ///< why it cannot be used, in a sentence; empty if it is complete

  [[nodiscard]] bool complete() const { return damage.empty(); }
};

namespace detail {

/// The files of a checkpoint, also those in its folder of what optimizers hold.
[[nodiscard]] inline int files_of(std::filesystem::path const& checkpoint, disk::links symbolic,
                                  disk& on, std::vector<std::string>& out) {
  if (int const code = on.names(checkpoint, symbolic, out); code != 0) return code;
  auto const inner = std::ranges::find(out, optimizer_folder);
  if (inner == out.end()) return 0;
  out.erase(inner);
  std::vector<std::string> names;
  if (int const code = on.names(checkpoint / optimizer_folder, disk::links::refused, names);
      code != 0)
    return code;
  for (auto const& name : names) out.push_back(std::string(optimizer_folder) + "/" + name);
  return 0;
}

/// Reads a checkpoint's manifest and sees whether its files are there.
inline found_checkpoint look_at_checkpoint(std::filesystem::path const& path, std::int64_t step,
                                           disk& on) {
  found_checkpoint out{.step = step, .path = path};
  try {
    auto const manifest = read_manifest(path, on);
    out.job = manifest.job;
    file_name const name("checkpoint", path);
    if (manifest.step != step)
      name.refuse("has a manifest of step " + std::to_string(manifest.step));
    std::vector<std::string> list;
    if (int const code = files_of(path, disk::links::followed, on, list); code != 0)
      name.fail("cannot be read", code);
    std::set<std::string_view> const files(list.begin(), list.end());
    for (auto const& block : manifest.blocks)
      if (!files.contains(block.file))
        name.refuse("lacks the file " + in_quotes(block.file) + " of its manifest");
  } catch (input_error const& problem) {
    out.damage = problem.what();
  }
  return out;
}

/// Those that are the best weights, or all others: see list_checkpoints.
inline std::vector<found_checkpoint> list_checkpoints(std::filesystem::path const& folder,
                                                      bool are_best, disk& on) {
  std::vector<std::string> names;
  int const code = on.names(folder, detail::disk::links::followed, names);
  if (code == ENOENT) return {};
  if (code != 0) file_name("folder of checkpoints", folder).fail("cannot be read", code);
  // By step; the one under the final name before one that it replaces.
  std::map<std::int64_t, std::vector<std::pair<checkpoint_name::kind, std::string>>, std::greater<>>
      steps;
  for (auto const& name : names)
    if (auto const parts = checkpoint_name::from(name);
        parts && parts->is_best == are_best &&
        (parts->what == checkpoint_name::complete || parts->what == checkpoint_name::replaced))
      steps[parts->step].emplace_back(parts->what, name);
  std::vector<found_checkpoint> out;
  for (auto& [step, candidates] : steps) {
    std::ranges::sort(candidates);
    for (auto const& [what, name] : candidates) {
      auto found = look_at_checkpoint(folder / name, step, on);
      bool const complete = found.complete();
      if (complete || what == checkpoint_name::complete) out.push_back(std::move(found));
      if (complete) break;
    }
  }
  return out;
}

}  // namespace detail

/// The checkpoints of a folder, newest first; none if there is no folder. A damaged one comes with
/// its reason, so that the one after it can be taken. The content of files is not read: who reads a
/// block compares its CRC-32.
///
/// One that was to be replaced by another of its step is listed while that one is not complete. The
/// best weights are not among them, see find_best.
///
/// Errors:  input_error if the folder cannot be read.
/// Threads: any rank may list, whoever writes.
inline std::vector<found_checkpoint> list_checkpoints(std::filesystem::path const& folder,
                                                      detail::disk& on = detail::the_disk()) {
  return detail::list_checkpoints(folder, false, on);
}

/// Whether this host sees, in a folder of checkpoints, the probe of that name with those bytes:
/// what checkpoint_folder::make_probe wrote, perhaps on another host. It looks again for as long as
/// `patience`: network file systems remember names, and that there was none.
///
/// Errors: none: what cannot be read is not seen.
inline bool sees_probe(std::filesystem::path const& folder, std::string_view name,
                       std::span<std::byte const> bytes, std::chrono::milliseconds patience = {},
                       detail::disk& on = detail::the_disk()) {
  auto const sees = [&] {
    try {
      auto const text = on.read_file(folder / name, bytes.size(), "probe");
      return std::ranges::equal(std::as_bytes(std::span(text)), bytes);
    } catch (input_error const&) {
      return false;
    }
  };
  auto const end = std::chrono::steady_clock::now() + patience;
  while (!sees()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return true;
}

}  // namespace plait
