// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/checkpoint/checkpoint_list.hpp"
#include "plait/checkpoint/checkpoint_name.hpp"
#include "plait/checkpoint/disk.hpp"
#include "plait/checkpoint/folder_lease.hpp"
#include "plait/checkpoint/manifest.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/file.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/quote.hpp"

namespace plait::ext {

/// A save that has begun: a folder under a name that is not its last.
struct checkpoint_save {
  std::int64_t step = 0;
  std::string name{};            ///< in the folder of checkpoints; for the other ranks
  std::filesystem::path path{};  ///< where every rank puts its files

  [[nodiscard]] bool is_best() const;
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
                    detail::disk& on = detail::the_disk());

  [[nodiscard]] std::filesystem::path const& path() const { return path_; }

  /// Cleans what killed jobs have left, and makes the folder of a new save, or of one that has the
  /// best weights. One save at a time: what has begun before and is not committed is removed.
  checkpoint_save begin(std::int64_t step, bool is_best = false);

  /// Makes a save appear as a checkpoint; all ranks have written their files. On return it is on
  /// the disk. A checkpoint of that step that is there already is replaced, even if it has the same
  /// manifest: what its files have may have been damaged since.
  ///
  /// Errors: also input_error if a file of the manifest is missing, if `manifest` has another step
  ///         or job, breaks a rule of manifests, or if another job's checkpoint has the name. The
  ///         save is then removed and cannot be committed again: what the disk could not keep once
  ///         it may have dropped. If it returns, no owner of the folder that comes later is without
  ///         it.
  void commit(checkpoint_save const& save, checkpoint_manifest const& manifest);

  /// Removes what there is of a save that will not be committed, as far as the system allows.
  void abandon(checkpoint_save const& save) noexcept;

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
  std::vector<std::string> remove_older(std::int64_t step, std::size_t keep);

  /// Writes a small file by which other hosts see that the folder is the same for them
  /// (sees_probe).
  ///
  /// Errors: input_error if it cannot be written.
  std::string make_probe(std::span<std::byte const> bytes);
  void remove_probe(std::string const& name) {
    if (is_probe(name)) (void)disk_.remove_file(path_ / name);
  }

 private:
  static constexpr char const* kind = "folder of checkpoints";
  static constexpr std::string_view probe_start = "plait.probe-";

  /// The folder's path, when it is there.
  static std::filesystem::path made(std::filesystem::path path, std::string const& job,
                                    detail::disk& on);

  /// Whether it is a probe, or another small file that was begun, of this owner or one before.
  [[nodiscard]] bool is_small_remains(std::string_view name) const;
  [[nodiscard]] bool is_probe(std::string_view name) const;
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
             detail::file_name const& name) const;

  void commit_or_throw(checkpoint_save const& save, checkpoint_manifest const& manifest);

  /// What a checkpoint takes the place of.
  [[nodiscard]] std::vector<found_checkpoint> others_of(name_of const& last) const;

  /// What jobs that were killed have left; this job has the lock, so that nobody is at it but who
  /// had the folder before and does not know it yet.
  void clean();

  /// Whether it counts and another of its step is taken: who had the folder was killed before it
  /// could remove it.
  [[nodiscard]] bool is_replaced(name_of const& name) const;

  /// Takes checkpoints away. They first get a name that says so, and that goes to the disk: else
  /// one could be without files and have its name back.
  std::vector<std::string> discard(std::vector<found_checkpoint> const& unwanted);

  /// The files of a checkpoint and its folders; what is in other folders within stays, and they do.
  int remove(std::filesystem::path const& folder);

  std::filesystem::path path_;
  std::string job_;
  detail::disk& disk_;
  detail::file_name name_;
  detail::folder_lease lease_;
  std::int64_t saves_ = 0;
};

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/checkpoint_folder.ipp"
#endif
