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
#include "plait/checkpoint/disk.hpp"
#include "plait/checkpoint/manifest.hpp"
#include "plait/checkpoint/manifest_rules.hpp"
#include "plait/checkpoint/manifest_text.hpp"
#include "plait/core/error.hpp"
#include "plait/core/file.hpp"
#include "plait/core/quote.hpp"

namespace plait {

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
/// only.
///
/// A save: root calls begin and tells the others the name; every rank writes its files in it and
/// brings each to the disk (safetensors_writer::commit does); when all have, root calls commit. The
/// power may fail at any moment: what list_checkpoints then calls complete is what was saved.
///
/// Errors:  input_error that names the folder and what the system says. Nothing half is then under
///          a final name; what was begun is removed, if the system allows.
/// Threads: one at a time.
class checkpoint_folder {
  using name_of = detail::checkpoint_name;

 public:
  /// Makes the folder, if the one above it is there, and locks it against other jobs for the life
  /// of the object. A file system without locks is taken as it is, and no remains are cleaned
  /// there.
  ///
  /// Errors: also input_error if another process has the lock.
  checkpoint_folder(std::filesystem::path folder, std::string job,
                    detail::disk& on = detail::the_disk())
      : path_(std::move(folder)),
        job_(std::move(job)),
        disk_(on),
        name_("folder of checkpoints", path_) {
    if (path_.empty() || path_.native().find('\0') != std::string::npos)
      name_.refuse("cannot be used: its name is empty or has a byte that is 0");
    if (job_.empty()) name_.refuse("cannot be used: the job has no name");
    if (!path_.has_filename()) path_ = path_.parent_path();  // 'a/' is 'a'
    int code = disk_.make_folder(path_);
    if (code == 0) {
      auto const above = path_.parent_path();
      if ((code = disk_.sync_folder(above.empty() ? "." : above)) != 0)
        name_.fail("cannot be brought to the disk", code);
    } else if (code != EEXIST) {
      name_.fail("cannot be made", code);
    }
    code = disk_.lock(path_ / "plait.lock", lock_);
    if (code == EWOULDBLOCK)
      name_.refuse("is in use: another job writes its checkpoints there; give each job its own");
    locked_ = code == 0;
    if (!locked_ && code != ENOLCK && code != EOPNOTSUPP && code != ENOSYS && code != EINVAL)
      name_.fail("cannot be locked", code);
  }

  [[nodiscard]] std::filesystem::path const& path() const { return path_; }

  /// Cleans what killed jobs have left, and makes the folder of a new save, or of one that has the
  /// best weights. One save at a time: what has begun before and is not committed is removed.
  checkpoint_save begin(std::int64_t step, bool is_best = false) {
    if (step < 0) name_.refuse("takes no step " + std::to_string(step) + ", which is negative");
    if (locked_) clean();
    int code = EEXIST;
    for (int tries = 0; tries < 16 && code == EEXIST; ++tries) {
      auto name = name_of::of(step, name_of::partial, disk_.random_digits(), is_best);
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
  ///         it may have dropped.
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
    if (int const code = disk_.write_file(path_ / name, bytes); code != 0) {
      (void)disk_.remove_file(path_ / name);
      name_.fail("takes no new file", code);
    }
    return name;
  }
  /// The name of the probe whose random part is that number.
  static std::string probe_name(std::uint64_t number) {
    return std::string(probe_start) + name_of::digits_of(number);
  }
  void remove_probe(std::string const& name) {
    if (is_probe(name)) (void)disk_.remove_file(path_ / name);
  }

 private:
  static constexpr std::string_view probe_start = "plait.probe-";
  static bool is_probe(std::string_view name) {
    return name.starts_with(probe_start) && name_of::is_random(name.substr(probe_start.size()));
  }

  /// Removes complete checkpoints of this job, newest first, if is_old(one) and the one of `step`
  /// is complete.
  template <class IsOld>
  std::vector<std::string> remove_behind(std::int64_t step, bool are_best, IsOld is_old) {
    auto list = detail::list_checkpoints(path_, are_best, disk_);
    std::erase_if(list, [&](auto const& one) { return !one.complete() || one.job != job_; });
    if (std::ranges::find(list, step, &found_checkpoint::step) == list.end())
      name_.refuse("has no complete checkpoint of step " + std::to_string(step) + " of job " +
                   detail::in_quotes(job_) + ", so that no older one is removed");
    std::vector<found_checkpoint> old;
    for (auto const& one : list)
      if (is_old(one)) old.push_back(one);
    return discard(old);
  }

  void check(checkpoint_save const& save, checkpoint_manifest const& manifest,
             detail::file_name const& name) const {
    auto const parts = name_of::from(save.name);
    if (!parts || parts->what != name_of::partial || parts->step != save.step)
      name.refuse("is not what begin() gave");
    if (manifest.step != save.step)
      name.refuse("is of step " + std::to_string(save.step) + ", but its manifest of step " +
                  std::to_string(manifest.step));
    if (manifest.job != job_)
      name.refuse("is of job " + detail::in_quotes(job_) + ", but its manifest of job " +
                  detail::in_quotes(manifest.job));
  }

  void commit_or_throw(checkpoint_save const& save, checkpoint_manifest const& manifest) {
    bool const is_best = save.is_best();
    auto const begun = path_ / save.name, last = path_ / name_of::of(save.step, is_best);
    detail::file_name const name("checkpoint", last);
    auto const must = [&](int code) {
      if (code != 0) name.fail("cannot be written", code);
    };
    check(save, manifest, name);
    auto const text = to_text(manifest, last / detail::manifest_file);
    std::vector<std::string> list;
    must(detail::files_of(begun, detail::disk::links::refused, disk_, list));
    std::set<std::string_view> const files(list.begin(), list.end());
    for (auto const& block : manifest.blocks)
      if (!files.contains(block.file))
        name.refuse("cannot be completed: its file " + detail::in_quotes(block.file) +
                    " was not written");
    must(disk_.write_file(begun / detail::manifest_file, std::as_bytes(std::span(text))));
    must(disk_.sync_folder(begun / detail::optimizer_folder));
    must(disk_.sync_folder(begun));

    auto const old = detail::look_at_checkpoint(last, save.step, disk_);
    if (!old.job.empty() && old.job != job_)
      name.refuse("is there and belongs to job " + detail::in_quotes(old.job) + ", not to " +
                  detail::in_quotes(job_));
    // List and the next begin() know one that lies aside; whatever cannot be ours stays there.
    auto const aside =
        path_ / name_of::of(save.step, name_of::replaced, disk_.random_digits(), is_best);
    int const moved = disk_.rename(last, aside);
    if (moved != ENOENT) must(moved);
    if (int const code = disk_.rename(begun, last); code != 0) {
      if (moved == 0) (void)disk_.rename(aside, last);
      must(code);
    }
    if (int const code = disk_.sync_folder(path_); code != 0)
      name.fail("is written, but its name cannot be brought to the disk", code);
    if (moved == 0 && old.job == job_) (void)discard({{.step = save.step, .path = aside}});
  }

  /// What jobs that were killed have left; this job has the lock, so that nobody is at it.
  void clean() {
    std::vector<std::string> names;
    if (int const code = disk_.names(path_, detail::disk::links::followed, names); code != 0)
      name_.fail("cannot be read", code);
    std::vector<std::filesystem::path> remains;
    std::vector<found_checkpoint> replaced;
    for (auto const& name : names) {
      auto const path = path_ / name;
      if (is_probe(name)) (void)disk_.remove_file(path);
      auto const parts = name_of::from(name);
      if (!parts || parts->what == name_of::complete) continue;
      if (parts->what == name_of::partial) {
        remains.push_back(path);
        continue;
      }
      auto const found = detail::look_at_checkpoint(path, parts->step, disk_);
      if (parts->what == name_of::removing) {
        if (found.job.empty() || found.job == job_) remains.push_back(path);
      } else if (found.job == job_) {
        auto const last = path_ / name_of::of(parts->step, parts->is_best);
        if (detail::look_at_checkpoint(last, parts->step, disk_).complete())
          replaced.push_back(found);
        else if (found.complete()) (void)disk_.rename(path, last);  // only if nothing is there
      }
    }
    // What is being removed must not have its old name back, and what replaced it must keep its
    // own.
    if ((remains.empty() && replaced.empty()) || disk_.sync_folder(path_) != 0) return;
    for (auto const& path : remains) (void)remove(path);
    (void)discard(replaced);
  }

  /// Takes checkpoints away. They first get a name that says so, and that goes to the disk: else
  /// one could be without files and have its name back.
  std::vector<std::string> discard(std::vector<found_checkpoint> const& unwanted) {
    std::vector<std::string> problems;
    auto const note = [&](std::filesystem::path const& path, int code) {
      if (code != 0)
        problems.push_back("checkpoint " + detail::path_in_quotes(path) +
                           " cannot be removed: " + std::generic_category().message(code));
    };
    std::vector<std::filesystem::path> removing;
    for (auto const& one : unwanted) {
      std::vector<std::string> names;  // not of a symbolic link
      int code = disk_.names(one.path, detail::disk::links::refused, names);
      auto const to = path_ / name_of::of(one.step, name_of::removing, disk_.random_digits());
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
  detail::file_descriptor lock_;
  bool locked_ = false;
};

}  // namespace plait
