// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "plait/checkpoint/counted_checkpoints.hpp"
#include "plait/checkpoint/disk.hpp"
#include "plait/core/file.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// The owner of a folder of checkpoints, which may write to it: a job or, if its ranks change, one
/// generation of the job.
struct folder_owner {
  std::string job{};
  std::string id{};             ///< an elastic job's id, which differs for each start of the job
  std::int64_t generation = 0;  ///< an elastic job's generation, from 1 on
};

}  // namespace plait::ext

namespace plait::detail {

/// A numbered lease that makes a job the owner of a folder of checkpoints.
///
/// A job with fixed ranks holds an exclusive file lock on plait.lock; elastic jobs share the lock.
/// Among elastic processes, the owner is the process that has made the lock file with the greatest
/// number, such as plait.lock-7. A new generation takes the folder without the help of the previous
/// owner, which may be a suspended process that still holds plait.lock-6. The new owner first makes
/// plait.lock-7, and then writes the names of the existing valid checkpoints to plait.list-7. So
/// checkpoints that the previous owner completed before the list was written stay valid, and
/// checkpoints that it renames later are ignored. A number is never used twice.
///
/// Errors:  input_error that names the present owner, or the system's error.
/// Threads: one thread at a time.
class folder_lease {
 public:
  /// The beginning of the name of an unfinished lock file (and below, of an unfinished list); 16
  /// random digits follow.
  static constexpr std::string_view begun_lock = "plait.lock.begun-";
  static constexpr std::string_view begun_list = "plait.list.begun-";

  folder_lease(std::filesystem::path const& folder, folder_owner owner, disk& on);

  /// Returns true if the file system has locks.
  [[nodiscard]] bool is_locked() const { return is_locked_; }
  /// Returns the number of the lease; 0 for a job with fixed ranks in a folder that no elastic job
  /// has used.
  [[nodiscard]] std::int64_t number() const { return number_; }
  /// Returns the lease number that the names of new checkpoints contain; 0 for a job with fixed
  /// ranks.
  [[nodiscard]] std::int64_t number_in_names() const { return is_elastic() ? number_ : 0; }

  /// Checks that this process still owns the folder.
  ///
  /// Errors: input_error if another generation or another job now owns the folder.
  void require() const;

 private:
  static constexpr int most_tries = 1000;

  [[nodiscard]] bool is_elastic() const { return !owner_.id.empty(); }
  static bool are_unknown(int code) {
    return code == ENOLCK || code == EOPNOTSUPP || code == ENOSYS || code == EINVAL;
  }
  [[nodiscard]] std::filesystem::path lock_path(std::int64_t number) const;
  [[noreturn]] void refuse_in_use() const;
  [[noreturn]] void refuse_lost(lease_text const& newest) const;

  /// Makes the lock file with the next number. Returns false if another process has made a newer
  /// lock file first.
  [[nodiscard]] bool take();

  /// Returns true if this process may take the folder over from the owner of lock file `number`;
  /// `newest` is the greatest number. Returns false if that lock file no longer exists, or if
  /// another process has taken the folder.
  ///
  /// Errors: input_error if that owner must keep the folder.
  [[nodiscard]] bool may_follow(std::int64_t number, std::int64_t newest) const;

  /// Writes the list of the valid checkpoints; returns false if a newer owner exists.
  [[nodiscard]] bool write_list();
  void remove_older();

  std::filesystem::path path_;
  folder_owner owner_;
  disk& disk_;
  file_name name_;
  file_descriptor lock_{}, mine_{};
  bool is_locked_ = false;
  std::int64_t number_ = 0;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/folder_lease.ipp"
#endif
