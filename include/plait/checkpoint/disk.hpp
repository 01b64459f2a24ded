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

/// The operations of checkpoints on a disk, so that a test can record them and let the power fail
/// after any of them.
///
/// Errors: functions return 0, or the errno of the system.
class disk {
 public:
  using path = std::filesystem::path;
  using links = open_file::links;
  virtual ~disk() = default;

  virtual int make_folder(path const&) = 0;
  /// Makes a new file, never over an existing one. On return its data is on the disk, but perhaps
  /// not its name.
  virtual int write_file(path const&, std::span<std::byte const>) = 0;
  /// Errors: input_error, as open_file throws it; also for a file of more than `most` bytes.
  virtual std::string read_file(path const&, std::size_t most, char const* kind) = 0;
  /// `to` must not exist.
  virtual int rename(path const& from, path const& to) = 0;
  virtual int remove_file(path const&) = 0;
  virtual int remove_folder(path const&) = 0;
  /// Brings the names in a folder to the disk.
  virtual int sync_folder(path const&) = 0;
  /// Lists a folder, in no order.
  virtual int names(path const&, links, std::vector<std::string>&) = 0;
  /// Gives a file one more name; EEXIST if that exists. It is renamed if the system has no links.
  virtual int link(path const& from, path const& to) = 0;
  enum class lock_for { one, many };
  enum class lock_of { any_file, old_file };
  /// Locks a file for this process, alone or together with others that lock it for many;
  /// EWOULDBLOCK if it is locked otherwise. A missing file is made, unless it has to be an old
  /// file.
  virtual int lock(path const&, lock_for, lock_of, file_descriptor&) = 0;
  /// Returns 16 digits, never the same.
  virtual std::string random_digits() = 0;
};

/// The disk of the system.
class system_disk : public disk {
 public:
  int make_folder(path const& folder) override { return code_of(::mkdir(folder.c_str(), 0777)); }

  // A failed fsync is not repeated: the system may have dropped the data and would then report
  // success.
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
