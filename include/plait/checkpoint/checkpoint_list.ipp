// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/checkpoint/checkpoint_list.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "plait/checkpoint/checkpoint_name.hpp"
#include "plait/checkpoint/counted_checkpoints.hpp"
#include "plait/checkpoint/manifest_rules.hpp"
#include "plait/checkpoint/manifest_text.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/file.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail {

PLAIT_DECL int files_of(std::filesystem::path const& checkpoint, disk::links symbolic, disk& on,
                        std::vector<std::string>& out) {
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

PLAIT_DECL found_checkpoint look_at_checkpoint(std::filesystem::path const& path, std::int64_t step,
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
        name.refuse(concat({"lacks the file ", in_quotes(block.file), " that its manifest names"}));
  } catch (input_error const& problem) {
    out.damage = problem.what();
  }
  return out;
}

PLAIT_DECL std::vector<found_checkpoint> list_checkpoints(std::filesystem::path const& folder,
                                                          bool are_best, disk& on) {
  counted_checkpoints const counted(folder, on);
  // The names of the checkpoints of each step. The final name precedes the names of checkpoints
  // that it replaces.
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

PLAIT_DECL bool sees_probe(std::filesystem::path const& folder, std::string_view name,
                           std::span<std::byte const> bytes, std::chrono::milliseconds patience,
                           detail::disk& on) {
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
