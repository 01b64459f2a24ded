// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/file.hpp"

namespace plait::detail {

/// What checkpoints do to a disk, so that a test can write it down and let the power fail anywhere.
///
/// Errors: 0 is returned if all is well, else the errno of the system.
class disk {
 public:
  using path = std::filesystem::path;
  using links = open_file::links;
  virtual ~disk() = default;

  virtual int make_folder(path const&) = 0;
  /// A new file, never one that is there; its data is on the disk on return, its name need not be.
  virtual int write_file(path const&, std::span<std::byte const>) = 0;
  /// Errors: input_error, as of open_file; also for a file of more than `most` bytes.
  virtual std::string read_file(path const&, std::size_t most, char const* kind) = 0;
  /// `to` is not there.
  virtual int rename(path const& from, path const& to) = 0;
  virtual int remove_file(path const&) = 0;
  virtual int remove_folder(path const&) = 0;
  /// Brings the names in a folder to the disk.
  virtual int sync_folder(path const&) = 0;
  /// What is in a folder, in no order.
  virtual int names(path const&, links, std::vector<std::string>&) = 0;
  /// Gives a file one more name; EEXIST if that is there already. Where the system knows
  /// no such thing, it is renamed.
  virtual int link(path const& from, path const& to) = 0;
  enum class lock_for { one, many };
  enum class lock_of { any_file, old_file };
  /// Takes a file for this process, alone or with others that take it so; EWOULDBLOCK if another
  /// has it otherwise. What is not there is made, unless it is to be an old file.
  virtual int lock(path const&, lock_for, lock_of, file_descriptor&) = 0;
  /// 16 of them, never the same.
  virtual std::string random_digits() = 0;
};

/// The system's calls.
class system_disk : public disk {
 public:
  int make_folder(path const& folder) override { return code_of(::mkdir(folder.c_str(), 0777)); }

  // What fsync could not do is not tried again: the system may have dropped the data and would say
  // that all is well.
  int write_file(path const& name, std::span<std::byte const> in) override {
    file_descriptor const file(
        ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (file.get() < 0) return errno;
    while (!in.empty()) {
      auto const put = ::write(file.get(), in.data(), in.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return errno;
      in = in.subspan(static_cast<std::size_t>(put));
    }
    return code_of(::fsync(file.get()));
  }

  std::string read_file(path const& name, std::size_t most, char const* kind) override {
    open_file const file(name, kind);
    if (file.size() > most)
      file.name().refuse(concat({"has ", file.size(), " bytes; at most ", most, " are allowed"}));
    std::string text(file.size(), '\0');
    file.read(std::as_writable_bytes(std::span(text)), 0);
    return text;
  }

  int rename(path const& from, path const& to) override {
    struct stat found{};
    if (::lstat(to.c_str(), &found) == 0) return EEXIST;  // an empty folder would be replaced
    return code_of(::rename(from.c_str(), to.c_str()));
  }
  int remove_file(path const& name) override { return code_of(::unlink(name.c_str())); }
  int remove_folder(path const& folder) override { return code_of(::rmdir(folder.c_str())); }

  int sync_folder(path const& folder) override {
    file_descriptor const open(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (open.get() < 0) return errno;
    // Some file systems have nothing to do for a folder and say EINVAL.
    return ::fsync(open.get()) == 0 || errno == EINVAL ? 0 : errno;
  }

  int names(path const& folder, links symbolic, std::vector<std::string>& out) override {
    int const flags =
        O_RDONLY | O_DIRECTORY | O_CLOEXEC | (symbolic == links::refused ? O_NOFOLLOW : 0);
    int const file = ::open(folder.c_str(), flags);
    if (file < 0) return errno;
    struct close_folder {
      void operator()(::DIR* open) const { ::closedir(open); }
    };
    std::unique_ptr<::DIR, close_folder> const open(::fdopendir(file));
    if (open == nullptr) {
      ::close(file);
      return ENOMEM;
    }
    for (;;) {
      errno = 0;
      auto const* const entry = ::readdir(open.get());
      if (entry == nullptr) return errno;
      std::string name = entry->d_name;
      if (name != "." && name != "..") out.push_back(std::move(name));
    }
  }

  int link(path const& from, path const& to) override {
    int const code = code_of(::link(from.c_str(), to.c_str()));
    bool const is_unknown = code == EPERM || code == EOPNOTSUPP || code == ENOSYS;
    return is_unknown ? rename(from, to) : code;
  }

  int lock(path const& name, lock_for whom, lock_of what, file_descriptor& out) override {
    int const make = what == lock_of::any_file ? O_CREAT : 0;
    int const flags = O_RDWR | make | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    out = file_descriptor(::open(name.c_str(), flags, 0666));
    if (out.get() < 0) return errno;
    return code_of(::flock(out.get(), (whom == lock_for::one ? LOCK_EX : LOCK_SH) | LOCK_NB));
  }

  std::string random_digits() override {
    std::uint64_t number = 0;
    if (::getentropy(&number, sizeof number) != 0)
      throw input_error("checkpoint: the system gives no random numbers");
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
    return digits;
  }

 private:
  static int code_of(int result) { return result == 0 ? 0 : errno; }
};

inline disk& the_disk() {
  static system_disk one;
  return one;
}

}  // namespace plait::detail
