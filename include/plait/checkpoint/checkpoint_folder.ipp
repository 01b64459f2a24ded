// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/checkpoint/checkpoint_folder.hpp"

#include <cerrno>
#include <set>

#include "plait/checkpoint/counted_checkpoints.hpp"
#include "plait/checkpoint/manifest_rules.hpp"
#include "plait/checkpoint/manifest_text.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"

namespace plait::ext {

PLAIT_DECL bool checkpoint_save::is_best() const {
  auto const parts = detail::checkpoint_name::from(name);
  return parts && parts->is_best;
}

PLAIT_DECL checkpoint_folder::checkpoint_folder(std::filesystem::path folder, folder_owner owner,
                                                detail::disk& on)
    : path_(made(std::move(folder), owner.job, on)),
      job_(owner.job),
      disk_(on),
      name_(kind, path_),
      lease_(path_, std::move(owner), disk_) {}

PLAIT_DECL checkpoint_save checkpoint_folder::begin(std::int64_t step, bool is_best) {
  if (step < 0)
    name_.refuse(concat({"cannot have a checkpoint of step ", step, ", which is negative"}));
  lease_.require();
  if (lease_.is_locked()) clean();
  name_of begun{.step = step, .is_best = is_best, .lease = lease_.number_in_names()};
  if (begun.lease > 0) begun.save = ++saves_;
  int code = EEXIST;
  for (int tries = 0; tries < 16 && code == EEXIST; ++tries) {
    auto const name = begun.as(name_of::partial, disk_.random_digits()).text();
    code = disk_.make_folder(path_ / name);
    if (code != 0) continue;
    code = disk_.make_folder(path_ / name / detail::optimizer_folder);
    if (code == 0) return {step, name, path_ / name};
    (void)disk_.remove_folder(path_ / name);
    break;
  }
  name_.fail("cannot receive a new checkpoint", code);
}

PLAIT_DECL void checkpoint_folder::commit(checkpoint_save const& save,
                                          checkpoint_manifest const& manifest) {
  try {
    commit_or_throw(save, manifest);
  } catch (...) {
    abandon(save);
    throw;
  }
}

PLAIT_DECL void checkpoint_folder::abandon(checkpoint_save const& save) noexcept {
  try {
    auto const parts = name_of::from(save.name);
    if (parts && parts->what == name_of::partial) (void)remove(path_ / save.name);
  } catch (...) {  // the folder stays, and the next begin() removes it
  }
}

PLAIT_DECL std::vector<std::string> checkpoint_folder::remove_older(std::int64_t step,
                                                                    std::size_t keep) {
  std::size_t kept = 1;
  return remove_behind(step, false,
                       [&](auto const& one) { return one.step < step && kept++ >= keep; });
}

PLAIT_DECL std::string checkpoint_folder::make_probe(std::span<std::byte const> bytes) {
  auto name = std::string(probe_start) + disk_.random_digits();
  if (auto const number = lease_.number_in_names(); number > 0)
    name += std::string(name_of::lease_word) + std::to_string(number);
  if (int const code = disk_.write_file(path_ / name, bytes); code != 0) {
    (void)disk_.remove_file(path_ / name);
    name_.fail("cannot receive a new file", code);
  }
  return name;
}

PLAIT_DECL std::filesystem::path checkpoint_folder::made(std::filesystem::path path,
                                                         std::string const& job, detail::disk& on) {
  detail::file_name const name(kind, path);
  if (path.empty() || path.native().find('\0') != std::string::npos)
    name.refuse("cannot be used: its name is empty or contains a null byte");
  if (job.empty()) name.refuse("cannot be used: the name of the job is empty");
  if (!path.has_filename()) path = path.parent_path();  // 'a/' is the same folder as 'a'
  auto const parent = path.parent_path();
  auto const above = parent.empty() ? std::filesystem::path(".") : parent;
  int code = on.make_folder(path);
  if (code == ENOENT)
    name.refuse(concat({"cannot be made: folder ", detail::in_quotes(above.string()),
                        " does not exist; make it first"}));
  if (code != 0 && code != EEXIST) name.fail("cannot be made", code);
  // The parent is synchronised even if the folder exists: the process that made the folder may have
  // been stopped before it synchronised the parent.
  if ((code = on.sync_folder(above)) != 0) name.fail("cannot be synchronised to the disk", code);
  return path;
}

PLAIT_DECL bool checkpoint_folder::is_small_remains(std::string_view name) const {
  for (auto const start : {detail::folder_lease::begun_lock, detail::folder_lease::begun_list})
    if (name.starts_with(start) && name_of::is_random(name.substr(start.size()))) return true;
  return is_probe(name);
}

PLAIT_DECL bool checkpoint_folder::is_probe(std::string_view name) const {
  if (!name.starts_with(probe_start)) return false;
  name.remove_prefix(probe_start.size());
  if (!name_of::is_random(name.substr(0, 16))) return false;
  auto const of = detail::number_behind(name_of::lease_word, name.substr(16));
  return name.size() == 16 || (of && is_mine_or_older(*of));
}

PLAIT_DECL void checkpoint_folder::check(checkpoint_save const& save,
                                         checkpoint_manifest const& manifest,
                                         detail::file_name const& name) const {
  auto const parts = name_of::from(save.name);
  if (!parts || parts->what != name_of::partial || parts->step != save.step ||
      parts->lease != lease_.number_in_names())
    name.refuse("is not the save that begin() returned");
  if (manifest.step != save.step)
    name.refuse(
        concat({"is of step ", save.step, ", but its manifest is of step ", manifest.step}));
  if (manifest.job != job_)
    name.refuse(concat({"is of job ", detail::in_quotes(job_), ", but its manifest is of job ",
                        detail::in_quotes(manifest.job)}));
}

PLAIT_DECL void checkpoint_folder::commit_or_throw(checkpoint_save const& save,
                                                   checkpoint_manifest const& manifest) {
  auto const begun = name_of::from(save.name);
  auto const last = begun.value_or(name_of{.step = save.step}).as(name_of::complete);
  auto const from = path_ / save.name, to = path_ / last.text();
  detail::file_name const name("checkpoint", to);
  auto const must = [&](int code) {
    if (code != 0) name.fail("cannot be written", code);
  };
  check(save, manifest, name);
  auto const text = to_text(manifest, to / detail::manifest_file);
  std::vector<std::string> list;
  must(detail::files_of(from, detail::disk::links::refused, disk_, list));
  std::set<std::string_view> const files(list.begin(), list.end());
  for (auto const& block : manifest.blocks)
    if (!files.contains(block.file))
      name.refuse(concat(
          {"cannot be completed: its file ", detail::in_quotes(block.file), " was not written"}));
  must(disk_.write_file(from / detail::manifest_file, std::as_bytes(std::span(text))));
  must(disk_.sync_folder(from / detail::optimizer_folder));
  must(disk_.sync_folder(from));

  auto old = others_of(last);
  for (auto const& one : old)
    if (!one.job.empty() && one.job != job_)
      detail::file_name("checkpoint", one.path)
          .refuse(concat({"already exists and belongs to job ", detail::in_quotes(one.job),
                          ", not to ", detail::in_quotes(job_)}));
  int moved = ENOENT;
  if (last.lease == 0) {
    // If the job is killed now, list_checkpoints and the next begin() find the old checkpoint under
    // the name `aside`. If other programs have put files into the old checkpoint, these files stay
    // in `aside`.
    auto const aside = path_ / last.as(name_of::replaced, disk_.random_digits()).text();
    moved = disk_.rename(to, aside);
    if (moved != ENOENT) must(moved);
    for (auto& one : old)
      if (one.path == to) one.path = aside;
    if (int const code = disk_.rename(from, to); code != 0) {
      if (moved == 0) (void)disk_.rename(aside, to);
      must(code);
    }
  } else {
    lease_.require();
    must(disk_.rename(from, to));
  }
  if (int const code = disk_.sync_folder(path_); code != 0)
    name.fail("is written, but its name cannot be synchronised to the disk", code);
  // The call throws if the folder has a newer owner. The old checkpoints then stay, because the
  // newer owner may have listed them as valid.
  lease_.require();
  std::erase_if(old, [&](auto const& one) { return one.job != job_; });
  (void)discard(old);
}

PLAIT_DECL std::vector<found_checkpoint> checkpoint_folder::others_of(name_of const& last) const {
  if (lease_.number() == 0)
    return {detail::look_at_checkpoint(path_ / last.text(), last.step, disk_)};
  std::vector<found_checkpoint> out;
  detail::counted_checkpoints const counted(path_, disk_);
  for (auto const& name : counted.names())
    if (auto const parts = name_of::from(name);
        parts && parts->step == last.step && parts->is_best == last.is_best &&
        counted.has(*parts) &&
        (parts->what == name_of::complete || parts->what == name_of::replaced))
      out.push_back(detail::look_at_checkpoint(path_ / name, last.step, disk_));
  return out;
}

PLAIT_DECL void checkpoint_folder::clean() {
  detail::counted_checkpoints const counted(path_, disk_);
  std::vector<std::filesystem::path> remains;
  std::vector<found_checkpoint> replaced;
  for (auto const& name : counted.names()) {
    auto const path = path_ / name;
    if (is_small_remains(name)) (void)disk_.remove_file(path);
    auto const parts = name_of::from(name);
    if (!parts || !is_mine_or_older(parts->lease)) continue;
    if (parts->what == name_of::complete && counted.has(*parts)) {
      if (is_replaced(*parts)) replaced.push_back({.step = parts->step, .path = path});
      continue;
    }
    if (parts->what == name_of::partial) {
      remains.push_back(path);
      continue;
    }
    auto const found = detail::look_at_checkpoint(path, parts->step, disk_);
    // If a checkpoint of an elastic job is in no list and has no manifest, its removal had begun
    // when the job was killed. Its name may not show this, because a power failure can undo the
    // rename.
    bool const is_empty = !counted.has(*parts) && found.job.empty();
    if (parts->what == name_of::removing || is_empty) {
      if (found.job.empty() || found.job == job_) remains.push_back(path);
    } else if (found.job == job_) {
      auto const last = path_ / parts->as(name_of::complete).text();
      if (!counted.has(*parts) || detail::look_at_checkpoint(last, parts->step, disk_).complete())
        replaced.push_back(found);
      else if (found.complete()) (void)disk_.rename(path, last);  // rename fails if `last` exists
    }
  }
  // Names are synchronised before files are removed. Otherwise a power failure could restore the
  // old name of a folder that is being removed, or undo the new name of its replacement.
  if ((remains.empty() && replaced.empty()) || disk_.sync_folder(path_) != 0) return;
  for (auto const& path : remains) (void)remove(path);
  // Throws if the folder has a newer owner, because the replacements may then be ignored.
  if (!replaced.empty()) lease_.require();
  (void)discard(replaced);
}

PLAIT_DECL bool checkpoint_folder::is_replaced(name_of const& name) const {
  // In jobs with fixed ranks, the name of a checkpoint shows that it has been replaced.
  if (lease_.number() == 0) return false;
  auto const list = detail::list_checkpoints(path_, name.is_best, disk_);
  auto const path = path_ / name.text();
  return std::ranges::any_of(list,
                             [&](auto const& one) {
                               return one.step == name.step && one.path != path && one.complete() &&
                                      one.job == job_;
                             }) &&
         std::ranges::find(list, path, &found_checkpoint::path) == list.end() &&
         detail::look_at_checkpoint(path, name.step, disk_).job == job_;
}

PLAIT_DECL std::vector<std::string> checkpoint_folder::discard(
    std::vector<found_checkpoint> const& unwanted) {
  std::vector<std::string> problems;
  auto const note = [&](std::filesystem::path const& path, int code) {
    if (code != 0)
      problems.push_back(concat({"checkpoint ", detail::path_in_quotes(path),
                                 " cannot be removed: ", std::generic_category().message(code)}));
  };
  std::vector<std::filesystem::path> removing;
  for (auto const& one : unwanted) {
    std::vector<std::string> names;  // stays empty for a symbolic link
    int code = disk_.names(one.path, detail::disk::links::refused, names);
    name_of const away{
        .step = one.step, .what = name_of::removing, .digits = disk_.random_digits()};
    auto const to = path_ / away.text();
    if (code == 0) code = disk_.rename(one.path, to);
    note(one.path, code);
    if (code == 0) removing.push_back(to);
  }
  int const code = removing.empty() ? 0 : disk_.sync_folder(path_);
  for (auto const& one : removing) note(one, code != 0 ? code : remove(one));
  return problems;
}

PLAIT_DECL int checkpoint_folder::remove(std::filesystem::path const& folder) {
  std::vector<std::string> names;
  if (int const code = detail::files_of(folder, detail::disk::links::refused, disk_, names);
      code != 0)
    return code;
  // The manifest is removed last, because it names the job that owns the other files if the removal
  // is interrupted.
  std::ranges::partition(names, [](auto const& name) { return name != detail::manifest_file; });
  bool const has_manifest = !names.empty() && names.back() == detail::manifest_file;
  if (has_manifest) names.pop_back();
  for (auto const& name : names)
    if (int const code = disk_.remove_file(folder / name); code != 0) return code;
  if (int const code = disk_.remove_folder(folder / detail::optimizer_folder);
      code != 0 && code != ENOENT)
    return code;
  if (has_manifest)
    if (int const code = disk_.remove_file(folder / detail::manifest_file); code != 0) return code;
  return disk_.remove_folder(folder);
}

}  // namespace plait::ext
