// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/checkpoint/checkpoint_list.hpp"
#include "plait/checkpoint/checkpoint_name.hpp"
#include "plait/checkpoint/counted_checkpoints.hpp"
#include "plait/checkpoint/disk.hpp"
#include "plait/checkpoint/folder_lease.hpp"
#include "plait/checkpoint/manifest.hpp"
#include "plait/checkpoint/manifest_rules.hpp"
#include "plait/checkpoint/manifest_text.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/file.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/quote.hpp"

namespace plait::ext {

/// A save that has begun: a folder under a name that is not its last.
struct checkpoint_save {
  std::int64_t step = 0;
  std::string name{};            ///< in the folder of checkpoints; for the other ranks
  std::filesystem::path path{};  ///< where every rank puts its files

  [[nodiscard]] bool is_best() const {
    auto const parts = detail::checkpoint_name::from(name);
    return parts && parts->is_best;
  }
};

/// The folder in which a job's checkpoints appear, complete or not at all: step-00000200 with its
/// files and plait.json. One rank of the job, its root, has the object; the others write files
/// only. In an elastic job it is the root of a generation: that of a newer one takes the folder
/// from it, and what it writes then counts no more, see folder_lease.
///
/// A save: root calls begin and tells the others the name; every rank writes its files in it and
/// brings each to the disk (safetensors_writer::commit does); when all have, root calls commit. The
/// power may fail at any moment: what list_checkpoints then calls complete is what was saved.
///
/// Errors:  input_error that names the folder and what the system says, or who has it now. Nothing
///          half is then under a final name; what was begun is removed, if the system allows.
/// Threads: one at a time.
class checkpoint_folder {
  using name_of = detail::checkpoint_name;

 public:
  /// Makes the folder, if the one above it is there, and locks it against other jobs for the life
  /// of the object. A file system without locks is taken as it is, and no remains are cleaned
  /// there.
  ///
  /// Errors: also input_error if another job has the lock, or another generation of this one that
  ///         is no older.
  checkpoint_folder(std::filesystem::path folder, std::string job,
                    detail::disk& on = detail::the_disk())
      : checkpoint_folder(std::move(folder), folder_owner{std::move(job)}, on) {}
  checkpoint_folder(std::filesystem::path folder, folder_owner owner,
                    detail::disk& on = detail::the_disk())
      : path_(made(std::move(folder), owner.job, on)),
        job_(owner.job),
        disk_(on),
        name_(kind, path_),
        lease_(path_, std::move(owner), disk_) {}

  [[nodiscard]] std::filesystem::path const& path() const { return path_; }

  /// Cleans what killed jobs have left, and makes the folder of a new save, or of one that has the
  /// best weights. One save at a time: what has begun before and is not committed is removed.
  checkpoint_save begin(std::int64_t step, bool is_best = false) {
    if (step < 0) name_.refuse(concat({"takes no step ", step, ", which is negative"}));
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
    name_.fail("takes no new checkpoint", code);
  }

  /// Makes a save appear as a checkpoint; all ranks have written their files. On return it is on
  /// the disk. A checkpoint of that step that is there already is replaced, even if it has the same
  /// manifest: what its files have may have been damaged since.
  ///
  /// Errors: also input_error if a file of the manifest is missing, if `manifest` has another step
  ///         or job, breaks a rule of manifests, or if another job's checkpoint has the name. The
  ///         save is then removed and cannot be committed again: what the disk could not keep once
  ///         it may have dropped. If it returns, no owner of the folder that comes later is without
  ///         it.
  void commit(checkpoint_save const& save, checkpoint_manifest const& manifest) {
    try {
      commit_or_throw(save, manifest);
    } catch (...) {
      abandon(save);
      throw;
    }
  }

  /// Removes what there is of a save that will not be committed, as far as the system allows.
  void abandon(checkpoint_save const& save) noexcept {
    try {
      auto const parts = name_of::from(save.name);
      if (parts && parts->what == name_of::partial) (void)remove(path_ / save.name);
    } catch (...) {  // NOLINT: it stays, and the next begin() cleans it
    }
  }

  /// Removes the best weights of this job but for those of `step`.
  ///
  /// Errors: as remove_older.
  std::vector<std::string> remove_other_best(std::int64_t step) {
    return remove_behind(step, true, [&](auto const& one) { return one.step != step; });
  }
  /// Removes checkpoints of this job that are older than the one of `step`, which is complete, but
  /// for the newest; with that one, `keep` stay. Newer ones and those of other jobs are let alone.
  ///
  /// Errors: a sentence for each that could not be removed; input_error if `step` is not complete.
  std::vector<std::string> remove_older(std::int64_t step, std::size_t keep) {
    std::size_t kept = 1;
    return remove_behind(step, false,
                         [&](auto const& one) { return one.step < step && kept++ >= keep; });
  }

  /// Writes a small file by which other hosts see that the folder is the same for them
  /// (sees_probe).
  ///
  /// Errors: input_error if it cannot be written.
  std::string make_probe(std::span<std::byte const> bytes) {
    auto name = std::string(probe_start) + disk_.random_digits();
    if (auto const number = lease_.number_in_names(); number > 0)
      name += std::string(name_of::lease_word) + std::to_string(number);
    if (int const code = disk_.write_file(path_ / name, bytes); code != 0) {
      (void)disk_.remove_file(path_ / name);
      name_.fail("takes no new file", code);
    }
    return name;
  }
  void remove_probe(std::string const& name) {
    if (is_probe(name)) (void)disk_.remove_file(path_ / name);
  }

 private:
  static constexpr char const* kind = "folder of checkpoints";
  static constexpr std::string_view probe_start = "plait.probe-";

  /// The folder's path, when it is there.
  static std::filesystem::path made(std::filesystem::path path, std::string const& job,
                                    detail::disk& on) {
    detail::file_name const name(kind, path);
    if (path.empty() || path.native().find('\0') != std::string::npos)
      name.refuse("cannot be used: its name is empty or has a byte that is 0");
    if (job.empty()) name.refuse("cannot be used: the job has no name");
    if (!path.has_filename()) path = path.parent_path();  // 'a/' is 'a'
    int code = on.make_folder(path);
    if (code != 0 && code != EEXIST) name.fail("cannot be made", code);
    // Also where it is there: who has made it may have been stopped before this.
    auto const above = path.parent_path();
    if ((code = on.sync_folder(above.empty() ? "." : above)) != 0)
      name.fail("cannot be brought to the disk", code);
    return path;
  }

  /// Whether it is a probe, or another small file that was begun, of this owner or one before.
  [[nodiscard]] bool is_small_remains(std::string_view name) const {
    for (auto const start : {detail::folder_lease::begun_lock, detail::folder_lease::begun_list})
      if (name.starts_with(start) && name_of::is_random(name.substr(start.size()))) return true;
    return is_probe(name);
  }
  [[nodiscard]] bool is_probe(std::string_view name) const {
    if (!name.starts_with(probe_start)) return false;
    name.remove_prefix(probe_start.size());
    if (!name_of::is_random(name.substr(0, 16))) return false;
    auto const of = detail::number_behind(name_of::lease_word, name.substr(16));
    return name.size() == 16 || (of && is_mine_or_older(*of));
  }
  /// A former owner of the folder that does not know it yet leaves alone what is of a lease behind
  /// its own.
  [[nodiscard]] bool is_mine_or_older(std::int64_t lease) const { return lease <= lease_.number(); }

  /// Removes complete checkpoints of this job, newest first, if is_old(one) and the one of `step`
  /// is complete.
  template <class IsOld>
  std::vector<std::string> remove_behind(std::int64_t step, bool are_best, IsOld is_old) {
    lease_.require();
    auto list = detail::list_checkpoints(path_, are_best, disk_);
    std::erase_if(list, [&](auto const& one) { return !one.complete() || one.job != job_; });
    if (std::ranges::find(list, step, &found_checkpoint::step) == list.end())
      name_.refuse(concat({"has no complete checkpoint of step ", step, " of job ",
                           detail::in_quotes(job_), ", so that no older one is removed"}));
    std::vector<found_checkpoint> old;
    for (auto const& one : list)
      if (is_old(one)) old.push_back(one);
    lease_.require();  // so that what was seen to be newer counts for whoever comes
    return discard(old);
  }

  void check(checkpoint_save const& save, checkpoint_manifest const& manifest,
             detail::file_name const& name) const {
    auto const parts = name_of::from(save.name);
    if (!parts || parts->what != name_of::partial || parts->step != save.step ||
        parts->lease != lease_.number_in_names())
      name.refuse("is not what begin() gave");
    if (manifest.step != save.step)
      name.refuse(concat({"is of step ", save.step, ", but its manifest of step ", manifest.step}));
    if (manifest.job != job_)
      name.refuse(concat({"is of job ", detail::in_quotes(job_), ", but its manifest of job ",
                          detail::in_quotes(manifest.job)}));
  }

  void commit_or_throw(checkpoint_save const& save, checkpoint_manifest const& manifest) {
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
            .refuse(concat({"is there and belongs to job ", detail::in_quotes(one.job), ", not to ",
                            detail::in_quotes(job_)}));
    int moved = ENOENT;
    if (last.lease == 0) {
      // List and the next begin() know one that lies aside; whatever cannot be ours stays there.
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
      name.fail("is written, but its name cannot be brought to the disk", code);
    // Who has taken the folder since may count on what was there, and not on this.
    lease_.require();
    std::erase_if(old, [&](auto const& one) { return one.job != job_; });
    (void)discard(old);
  }

  /// What a checkpoint takes the place of.
  [[nodiscard]] std::vector<found_checkpoint> others_of(name_of const& last) const {
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

  /// What jobs that were killed have left; this job has the lock, so that nobody is at it but who
  /// had the folder before and does not know it yet.
  void clean() {
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
      // An elastic job's that does not count and has no manifest was being removed, whatever its
      // name is after a power failure.
      bool const is_empty = !counted.has(*parts) && found.job.empty();
      if (parts->what == name_of::removing || is_empty) {
        if (found.job.empty() || found.job == job_) remains.push_back(path);
      } else if (found.job == job_) {
        auto const last = path_ / parts->as(name_of::complete).text();
        if (!counted.has(*parts) || detail::look_at_checkpoint(last, parts->step, disk_).complete())
          replaced.push_back(found);
        else if (found.complete()) (void)disk_.rename(path, last);  // only if nothing is there
      }
    }
    // What is being removed must not have its old name back, and what replaced it must keep its
    // own.
    if ((remains.empty() && replaced.empty()) || disk_.sync_folder(path_) != 0) return;
    for (auto const& path : remains) (void)remove(path);
    if (!replaced.empty()) lease_.require();  // so that what takes their place counts
    (void)discard(replaced);
  }

  /// Whether it counts and another of its step is taken: who had the folder was killed before it
  /// could remove it.
  [[nodiscard]] bool is_replaced(name_of const& name) const {
    if (lease_.number() == 0) return false;  // there it has another name
    auto const list = detail::list_checkpoints(path_, name.is_best, disk_);
    auto const path = path_ / name.text();
    return std::ranges::any_of(list,
                               [&](auto const& one) {
                                 return one.step == name.step && one.path != path &&
                                        one.complete() && one.job == job_;
                               }) &&
           std::ranges::find(list, path, &found_checkpoint::path) == list.end() &&
           detail::look_at_checkpoint(path, name.step, disk_).job == job_;
  }

  /// Takes checkpoints away. They first get a name that says so, and that goes to the disk: else
  /// one could be without files and have its name back.
  std::vector<std::string> discard(std::vector<found_checkpoint> const& unwanted) {
    std::vector<std::string> problems;
    auto const note = [&](std::filesystem::path const& path, int code) {
      if (code != 0)
        problems.push_back(concat({"checkpoint ", detail::path_in_quotes(path),
                                   " cannot be removed: ", std::generic_category().message(code)}));
    };
    std::vector<std::filesystem::path> removing;
    for (auto const& one : unwanted) {
      std::vector<std::string> names;  // not of a symbolic link
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

  /// The files of a checkpoint and its folders; what is in other folders within stays, and they do.
  int remove(std::filesystem::path const& folder) {
    std::vector<std::string> names;
    if (int const code = detail::files_of(folder, detail::disk::links::refused, disk_, names);
        code != 0)
      return code;
    // The manifest last: it says whose the rest is, should this end here.
    std::ranges::partition(names, [](auto const& name) { return name != detail::manifest_file; });
    bool const has_manifest = !names.empty() && names.back() == detail::manifest_file;
    if (has_manifest) names.pop_back();
    for (auto const& name : names)
      if (int const code = disk_.remove_file(folder / name); code != 0) return code;
    if (int const code = disk_.remove_folder(folder / detail::optimizer_folder);
        code != 0 && code != ENOENT)
      return code;
    if (has_manifest)
      if (int const code = disk_.remove_file(folder / detail::manifest_file); code != 0)
        return code;
    return disk_.remove_folder(folder);
  }

  std::filesystem::path path_;
  std::string job_;
  detail::disk& disk_;
  detail::file_name name_;
  detail::folder_lease lease_;
  std::int64_t saves_ = 0;
};

}  // namespace plait::ext
