// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "plait/checkpoint/checkpoint_name.hpp"
#include "plait/checkpoint/counted_checkpoints.hpp"
#include "plait/checkpoint/disk.hpp"
#include "plait/checkpoint/manifest.hpp"
#include "plait/checkpoint/manifest_rules.hpp"
#include "plait/checkpoint/manifest_text.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/file.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/quote.hpp"

namespace plait::ext {

/// A checkpoint that is in a folder.
struct found_checkpoint {
  std::int64_t step = 0;
  std::filesystem::path path{};
  std::string job{};     ///< of its manifest
  std::string damage{};  ///< why it cannot be used, in a sentence; empty if it is complete

  [[nodiscard]] bool complete() const { return damage.empty(); }
};

}  // namespace plait::ext

namespace plait::detail {

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
  for (auto const& name : names) out.push_back(concat({optimizer_folder, "/", name}));
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
    if (manifest.step != step) name.refuse(concat({"has a manifest of step ", manifest.step}));
    std::vector<std::string> list;
    if (int const code = files_of(path, disk::links::followed, on, list); code != 0)
      name.fail("cannot be read", code);
    std::set<std::string_view> const files(list.begin(), list.end());
    for (auto const& block : manifest.blocks)
      if (!files.contains(block.file))
        name.refuse(concat({"lacks the file ", in_quotes(block.file), " of its manifest"}));
  } catch (input_error const& problem) {
    out.damage = problem.what();
  }
  return out;
}

/// Those that are the best weights, or all others: see list_checkpoints.
inline std::vector<found_checkpoint> list_checkpoints(std::filesystem::path const& folder,
                                                      bool are_best, disk& on) {
  counted_checkpoints const counted(folder, on);
  // By step; the one under the final name before one that it replaces.
  std::map<std::int64_t, std::vector<checkpoint_name>, std::greater<>> steps;
  for (auto const& name : counted.names())
    if (auto const parts = checkpoint_name::from(name);
        parts && parts->is_best == are_best && counted.has(*parts) &&
        (parts->what == checkpoint_name::complete || parts->what == checkpoint_name::replaced))
      steps[parts->step].push_back(*parts);
  std::vector<found_checkpoint> out;
  for (auto& [step, candidates] : steps) {
    std::ranges::sort(candidates, [&](auto const& one, auto const& other) {
      return counted.is_before(one, other);
    });
    for (auto const& name : candidates) {
      auto found = look_at_checkpoint(folder / name.text(), step, on);
      bool const complete = found.complete();
      if (complete || name.what == checkpoint_name::complete) out.push_back(std::move(found));
      if (complete) break;
    }
  }
  return out;
}

}  // namespace plait::detail

namespace plait::ext {

/// The checkpoints of a folder, newest first; none if there is no folder. A damaged one comes with
/// its reason, so that the one after it can be taken. The content of files is not read: who reads a
/// block compares its CRC-32.
///
/// One that was to be replaced by another of its step is listed while that one is not complete. In
/// the folder of an elastic job those are listed that count for its newest root, see
/// counted_checkpoints. The best weights are not among them, see find_best.
///
/// Errors:  input_error if the folder cannot be read.
/// Threads: any rank may list while others write.
inline std::vector<found_checkpoint> list_checkpoints(std::filesystem::path const& folder,
                                                      detail::disk& on = detail::the_disk()) {
  return detail::list_checkpoints(folder, false, on);
}

/// Says whether this host sees, in a folder of checkpoints, the probe of that name with those
/// bytes: what checkpoint_folder::make_probe wrote, perhaps on another host. It looks again for as
/// long as `patience`: network file systems remember names, and that there was none.
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

}  // namespace plait::ext
