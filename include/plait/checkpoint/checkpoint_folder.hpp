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

/// A save that has begun: a folder under a temporary name.
struct checkpoint_save {
  std::int64_t step = 0;
  std::string name{};  ///< its name in the folder of checkpoints, which root tells the other ranks
  std::filesystem::path path{};  ///< the folder in which each rank puts its files

  [[nodiscard]] bool is_best() const;
};

/// The folder in which a job's checkpoints appear, complete or not at all: step-00000200 with its
/// files and plait.json. Only root, one rank of the job, has the object; the other ranks only write
/// files. In an elastic job each generation has a root. The root of a newer generation takes the
/// folder from the older one, whose later writes do not count, see folder_lease.
///
/// A save has four steps. Root calls begin and tells the other ranks the temporary name, such as
/// step-00000200.partial-<16 digits>. Every rank writes its files there and brings each to the disk
/// (safetensors_writer::commit does). When all have, root calls commit, which writes plait.json and
/// renames the folder to step-00000200. The power may fail at any moment: a checkpoint that
/// list_checkpoints then calls complete has all data that was saved.
///
/// Errors:  input_error that names the folder, and the system's error or the folder's present
///          owner. No half checkpoint is then under a final name; the unfinished folder is removed
///          if the system allows.
/// Threads: one at a time.
class checkpoint_folder {
  using name_of = detail::checkpoint_name;

 public:
  /// Makes the folder if its parent exists, and locks it against other jobs for the life of the
  /// object. On a file system without locks it works without a lock, and does not remove the
  /// remains of killed jobs.
  ///
  /// Errors: also input_error if another job has the lock, or a generation of this job that is not
  ///         older.
  checkpoint_folder(std::filesystem::path folder, std::string job,
                    detail::disk& on = detail::the_disk())
      : checkpoint_folder(std::move(folder), folder_owner{std::move(job)}, on) {}
  checkpoint_folder(std::filesystem::path folder, folder_owner owner,
                    detail::disk& on = detail::the_disk());

  [[nodiscard]] std::filesystem::path const& path() const { return path_; }

  /// Removes the remains of killed jobs, and makes the folder of a new save, or of a new save of
  /// the best weights. One save at a time: an earlier save that is not committed is removed.
  checkpoint_save begin(std::int64_t step, bool is_best = false);

  /// Makes a save appear as a checkpoint; all ranks have written their files. On return it is on
  /// the disk, and each later owner of the folder finds it. A checkpoint of that step that exists
  /// is replaced, even if it has the same manifest: its files may have been damaged.
  ///
  /// Errors: also input_error if a file of the manifest is missing, if `manifest` has another step
  ///         or job or breaks a rule of manifests, or if another job's checkpoint has the name. The
  ///         save is then removed and cannot be committed again: after a failed fsync the system
  ///         may have dropped the data.
  void commit(checkpoint_save const& save, checkpoint_manifest const& manifest);

  /// Removes the files of a save that will not be committed, as far as the system allows.
  void abandon(checkpoint_save const& save) noexcept;

  /// Removes the best weights of this job, except the best weights of `step`.
  ///
  /// Errors: the errors of remove_older.
  std::vector<std::string> remove_other_best(std::int64_t step) {
    return remove_behind(step, true, [&](auto const& one) { return one.step != step; });
  }
  /// Removes checkpoints of this job that are older than the complete one of `step`, except for the
  /// newest: `keep` stay, including the one of `step`. Newer checkpoints, and checkpoints of other
  /// jobs, are not touched.
  ///
  /// Errors: returns a sentence for each that could not be removed; input_error if `step` is not
  ///         complete.
  std::vector<std::string> remove_older(std::int64_t step, std::size_t keep);

  /// Writes a small file by which other hosts check that they see the same folder (sees_probe).
  ///
  /// Errors: input_error if it cannot be written.
  std::string make_probe(std::span<std::byte const> bytes);
  void remove_probe(std::string const& name) {
    if (is_probe(name)) (void)disk_.remove_file(path_ / name);
  }

 private:
  static constexpr char const* kind = "folder of checkpoints";
  static constexpr std::string_view probe_start = "plait.probe-";

  /// Makes the folder and returns its path.
  static std::filesystem::path made(std::filesystem::path path, std::string const& job,
                                    detail::disk& on);

  /// Returns true for a probe, or another small unfinished file, of this owner or an earlier one.
  [[nodiscard]] bool is_small_remains(std::string_view name) const;
  [[nodiscard]] bool is_probe(std::string_view name) const;
  /// Returns true for leases up to this owner's. A former owner that does not know of its successor
  /// must not touch the successor's files.
  [[nodiscard]] bool is_mine_or_older(std::int64_t lease) const { return lease <= lease_.number(); }

  /// Removes each complete checkpoint of this job, newest first, for which is_old is true, if the
  /// checkpoint of `step` is complete.
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
    lease_.require();  // so that the next owner also counts the newer ones
    return discard(old);
  }

  void check(checkpoint_save const& save, checkpoint_manifest const& manifest,
             detail::file_name const& name) const;

  void commit_or_throw(checkpoint_save const& save, checkpoint_manifest const& manifest);

  /// Returns the checkpoints that `last` replaces.
  [[nodiscard]] std::vector<found_checkpoint> others_of(name_of const& last) const;

  /// Removes the remains of killed jobs. This job has the lock, so only a former owner that does
  /// not know of this one may still change the folder.
  void clean();

  /// Returns true if another complete checkpoint of its step is preferred: the former owner was
  /// killed before it could remove this one.
  [[nodiscard]] bool is_replaced(name_of const& name) const;

  /// Removes checkpoints. Each is first renamed to a name that marks it, and the name is brought to
  /// the disk: else a power failure could leave it under its old name without its files.
  std::vector<std::string> discard(std::vector<found_checkpoint> const& unwanted);

  /// Removes the files of a checkpoint and its folders; other folders in it, and their files, stay.
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
