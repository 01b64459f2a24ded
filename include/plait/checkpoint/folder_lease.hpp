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

/// The owner of a folder of checkpoints, who writes into it: a job and, where its ranks change, one
/// of its generations.
struct folder_owner {
  std::string job{};
  std::string id{};             ///< of an elastic job, another one each time it is started
  std::int64_t generation = 0;  ///< of that, from 1 on
};

}  // namespace plait::ext

namespace plait::detail {

/// What makes a job the owner of a folder of checkpoints: its lease, which has a number.
///
/// A fixed job holds plait.lock alone. Elastic jobs hold it together; the owner among them is who
/// has made the lock with the greatest number, plait.lock-7, and that takes a generation from the
/// one before it without its help: the process that has the lock before may be stopped. Numbers are
/// given once. Who has a new one first makes it known, and then writes down what counts of all that
/// is there (plait.list-7). So nothing that an old owner renames is lost that it may have built on,
/// and nothing that it renames later counts.
///
/// Errors:  input_error that says who has the folder, or what the system says.
/// Threads: one at a time.
class folder_lease {
 public:
  /// How its files begin that do not have their last names yet; 16 digits follow.
  static constexpr std::string_view begun_lock = "plait.lock.begun-";
  static constexpr std::string_view begun_list = "plait.list.begun-";

  folder_lease(std::filesystem::path const& folder, folder_owner owner, disk& on);

  /// Whether the file system has locks.
  [[nodiscard]] bool is_locked() const { return is_locked_; }
  /// 0 for a fixed job in a folder that is no elastic one's.
  [[nodiscard]] std::int64_t number() const { return number_; }
  /// What names of checkpoints have of it.
  [[nodiscard]] std::int64_t number_in_names() const { return is_elastic() ? number_ : 0; }

  /// Errors: input_error if another generation has the folder now.
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

  /// False if somebody else was faster.
  [[nodiscard]] bool take();

  /// False if that lock is not there any more.
  ///
  /// Errors: input_error if its owner keeps the folder.
  [[nodiscard]] bool may_follow(std::int64_t number, std::int64_t newest) const;

  /// Writes down what counts; false if somebody else has come since.
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
