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

/// A save in progress: the folder that receives its files, under a temporary name.
struct checkpoint_save {
  std::int64_t step = 0;
  /// The name of this folder in the folder of checkpoints. The root sends this name to the other
  /// ranks.
  std::string name{};
  std::filesystem::path path{};  ///< the folder in which each rank puts its files

  [[nodiscard]] bool is_best() const;
};

/// A folder in which the checkpoints of a job appear atomically. Each checkpoint is a subfolder,
/// such as step-00000200, with files of tensors and the manifest plait.json. Only the root, one
/// rank of the job, has this object; the other ranks only write files. In an elastic job each
/// generation (a period in which the ranks do not change) has its own root. The root of a newer
/// generation takes the folder over; checkpoints that the root of the older generation writes after
/// this are ignored, see folder_lease.
///
/// A save has four steps. The root calls begin and sends the temporary name to the other ranks,
/// such as step-00000200.partial-<16 digits>. Every rank writes its files there and synchronises
/// each to the disk, as safetensors_writer::commit does. When all ranks have done so, the root
/// calls commit, which writes plait.json and renames the folder to step-00000200. The power may
/// fail at any moment: each checkpoint that list_checkpoints reports as complete afterwards
/// contains all data that was saved in it.
///
/// Errors:  input_error that names the folder, and the system's error or the folder's present
///          owner. After an error, an incomplete checkpoint does not get its final name, and the
///          unfinished folder is removed if the system allows it.
/// Threads: one thread at a time.
class checkpoint_folder {
  using name_of = detail::checkpoint_name;

 public:
  /// Makes the folder if its parent exists, and locks the folder against other jobs until this
  /// object is destroyed. If the file system has no locks, the object works without a lock and does
  /// not remove the unfinished files of killed jobs.
  ///
  /// Errors: also input_error if the lock belongs to another job, or to the same or a newer
  ///         generation of this job.
  checkpoint_folder(std::filesystem::path folder, std::string job,
                    detail::disk& on = detail::the_disk())
      : checkpoint_folder(std::move(folder), folder_owner{std::move(job)}, on) {}
  checkpoint_folder(std::filesystem::path folder, folder_owner owner,
                    detail::disk& on = detail::the_disk());

  [[nodiscard]] std::filesystem::path const& path() const { return path_; }

  /// Removes the unfinished files of killed jobs, makes the folder of a new save, and returns the
  /// save. `is_best`: true for a save of the best weights. Only one save is in progress at a time:
  /// an earlier save that is not committed is removed.
  checkpoint_save begin(std::int64_t step, bool is_best = false);

  /// Makes a save appear as a checkpoint; call this function after all ranks have written their
  /// files. On return the checkpoint is on the disk, and each later owner of the folder finds it.
  /// An existing checkpoint of the same step is replaced, even if the two manifests are equal,
  /// because the files of the existing checkpoint may have been damaged.
  ///
  /// Errors: also input_error if a file of the manifest is missing, if the step or job in
  ///         `manifest` is not the step or job of the save, if the manifest breaks a rule
  ///         (manifest_rules.hpp), or if a checkpoint of another job has the same name. The save is
  ///         then removed and cannot be committed later: after a failed fsync the system may have
  ///         dropped the data.
  void commit(checkpoint_save const& save, checkpoint_manifest const& manifest);

  /// Removes the files of a save that will not be committed, as far as the system allows it.
  void abandon(checkpoint_save const& save) noexcept;

  /// Removes the checkpoints of best weights that this job has saved, except the checkpoint of
  /// `step`.
  ///
  /// Errors: the errors of remove_older.
  std::vector<std::string> remove_other_best(std::int64_t step) {
    return remove_behind(step, true, [&](auto const& one) { return one.step != step; });
  }
  /// Removes old checkpoints of this job. The complete checkpoint of `step` and the newest
  /// checkpoints before it stay, `keep` checkpoints in total. Checkpoints newer than `step` and
  /// checkpoints of other jobs are not touched.
  ///
  /// Errors: returns a sentence for each checkpoint that could not be removed; input_error if the
  ///         checkpoint of `step` is not complete.
  std::vector<std::string> remove_older(std::int64_t step, std::size_t keep);

  /// Writes a small file with `bytes` and returns its name. Other hosts look for this file to check
  /// that they see the same folder (sees_probe).
  ///
  /// Errors: input_error if it cannot be written.
  std::string make_probe(std::span<std::byte const> bytes);
  void remove_probe(std::string const& name) {
    if (is_probe(name)) (void)disk_.remove_file(path_ / name);
  }

 private:
  static constexpr char const* kind = "folder of checkpoints";
  static constexpr std::string_view probe_start = "plait.probe-";

  /// Makes the folder if it does not exist, and returns its path.
  static std::filesystem::path made(std::filesystem::path path, std::string const& job,
                                    detail::disk& on);

  /// Returns true if `name` is a probe, or another small unfinished file, that this owner or an
  /// earlier owner of the folder has left.
  [[nodiscard]] bool is_small_remains(std::string_view name) const;
  [[nodiscard]] bool is_probe(std::string_view name) const;
  /// Returns true if the lease has this owner's number or a smaller one. A former owner that does
  /// not know of the present owner must not touch the files of the present owner.
  [[nodiscard]] bool is_mine_or_older(std::int64_t lease) const { return lease <= lease_.number(); }

  /// Removes each complete checkpoint of this job for which is_old is true, the newest first. It
  /// does so only if the checkpoint of `step` is complete.
  template <class IsOld>
  std::vector<std::string> remove_behind(std::int64_t step, bool are_best, IsOld is_old) {
    lease_.require();
    auto list = detail::list_checkpoints(path_, are_best, disk_);
    std::erase_if(list, [&](auto const& one) { return !one.complete() || one.job != job_; });
    if (std::ranges::find(list, step, &found_checkpoint::step) == list.end())
      name_.refuse(concat({"has no complete checkpoint of step ", step, " of job ",
                           detail::in_quotes(job_), ", so no older checkpoint is removed"}));
    std::vector<found_checkpoint> old;
    for (auto const& one : list)
      if (is_old(one)) old.push_back(one);
    // Throws if the folder has a newer owner, because the newer checkpoints may then be ignored.
    lease_.require();
    return discard(old);
  }

  void check(checkpoint_save const& save, checkpoint_manifest const& manifest,
             detail::file_name const& name) const;

  void commit_or_throw(checkpoint_save const& save, checkpoint_manifest const& manifest);

  /// Returns the existing checkpoints of the same step that the checkpoint `last` replaces.
  [[nodiscard]] std::vector<found_checkpoint> others_of(name_of const& last) const;

  /// Removes the unfinished files of killed jobs. This job has the lock, so the only other process
  /// that may still change the folder is a former owner that does not know of this owner.
  void clean();

  /// Returns true if another complete checkpoint of the same step is preferred to the checkpoint
  /// `name`. Both exist if a former owner was killed before it could remove the checkpoint `name`.
  [[nodiscard]] bool is_replaced(name_of const& name) const;

  /// Removes checkpoints. Each checkpoint first gets a name that marks it as being removed, and the
  /// new name is synchronised to the disk. Otherwise a power failure could leave the checkpoint
  /// under its old name without some of its files.
  std::vector<std::string> discard(std::vector<found_checkpoint> const& unwanted);

  /// Removes the folder of a checkpoint with its files. Subfolders that plait has not made stay,
  /// with their files.
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
