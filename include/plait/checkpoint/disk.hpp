// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "plait/core/file.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// The file operations that checkpoints use. They are virtual so that a test can record them and
/// simulate a power failure after any of them.
///
/// Errors: functions return 0, or the errno of the system.
class disk {
 public:
  using path = std::filesystem::path;
  using links = open_file::links;
  virtual ~disk() = default;

  virtual int make_folder(path const&) = 0;
  /// Makes a new file and never overwrites an existing one. On return the data of the file is on
  /// the disk, but its name may not be; see sync_folder.
  virtual int write_file(path const&, std::span<std::byte const>) = 0;
  /// Returns the content of a file.
  ///
  /// Errors: the input_error of open_file; also input_error for a file of more than `most` bytes.
  virtual std::string read_file(path const&, std::size_t most, char const* kind) = 0;
  /// Renames a file or folder; `to` must not exist.
  virtual int rename(path const& from, path const& to) = 0;
  virtual int remove_file(path const&) = 0;
  virtual int remove_folder(path const&) = 0;
  /// Synchronises the names in a folder to the disk.
  virtual int sync_folder(path const&) = 0;
  /// Stores the names of the files in a folder in the vector, unsorted.
  virtual int names(path const&, links, std::vector<std::string>&) = 0;
  /// Adds a second name, `to`, to a file; returns EEXIST if that name exists. If the file system
  /// has no hard links, renames the file instead.
  virtual int link(path const& from, path const& to) = 0;
  enum class lock_for { one, many };
  enum class lock_of { any_file, old_file };
  /// Locks a file for this process, exclusively (lock_for::one) or shared (lock_for::many). Returns
  /// EWOULDBLOCK if another process holds a lock that conflicts with this lock. A missing file is
  /// made, unless lock_of::old_file is passed.
  virtual int lock(path const&, lock_for, lock_of, file_descriptor&) = 0;
  /// Returns 16 digits that differ in each call.
  virtual std::string random_digits() = 0;
};

/// The file operations of the operating system.
class system_disk : public disk {
 public:
  int make_folder(path const& folder) override { return code_of(::mkdir(folder.c_str(), 0777)); }

  // A failed fsync is not repeated: the system may have dropped the data, and a second fsync would
  // then report success.
  int write_file(path const& name, std::span<std::byte const> in) override;

  std::string read_file(path const& name, std::size_t most, char const* kind) override;

  int rename(path const& from, path const& to) override;
  int remove_file(path const& name) override { return code_of(::unlink(name.c_str())); }
  int remove_folder(path const& folder) override { return code_of(::rmdir(folder.c_str())); }

  int sync_folder(path const& folder) override;

  int names(path const& folder, links symbolic, std::vector<std::string>& out) override;

  int link(path const& from, path const& to) override;

  int lock(path const& name, lock_for whom, lock_of what, file_descriptor& out) override;

  std::string random_digits() override;

 private:
  static int code_of(int result) { return result == 0 ? 0 : errno; }
};

disk& the_disk();

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/disk.ipp"
#endif
