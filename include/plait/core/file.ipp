// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/xattr.h>

#include <array>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include "plait/core/concat.hpp"

namespace plait::detail {

PLAIT_DECL file_name::file_name(std::string_view kind, std::string const& path)
    : text_(concat({kind, " ", path_in_quotes(path)})) {}

PLAIT_DECL void file_name::refuse(std::string const& what) const {
  throw input_error({text_, " ", what});
}

PLAIT_DECL void file_name::refuse_part(std::string const& part, std::string const& what) const {
  throw input_error({text_, ": ", part, " ", what});
}

PLAIT_DECL void file_name::fail(std::string const& what, int code) const {
  refuse(concat({what, ": ", std::generic_category().message(code)}));
}

PLAIT_DECL void require_folder(file_name const& name, std::string const& folder) {
  if (struct stat found{}; !folder.empty() && ::stat(folder.c_str(), &found) != 0)
    name.refuse(concat(
        {"cannot be written: folder ", path_in_quotes(folder), " does not exist; make it first"}));
}

PLAIT_DECL bool is_regular_file(std::string const& path) {
  struct stat found{};
  return ::stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode);
}

PLAIT_DECL void cut_file(std::string const& path, std::string_view kind, std::size_t size) {
  if (::truncate(path.c_str(), static_cast<::off_t>(size)) != 0)
    file_name(kind, path).fail("cannot be written", errno);
}

PLAIT_DECL file_descriptor& file_descriptor::operator=(file_descriptor&& other) noexcept {
  std::swap(value_, other.value_);
  return *this;
}

PLAIT_DECL open_file::open_file(std::string const& path, std::string_view kind, links symbolic)
    : name_(kind, path) {
  if (path.find('\0') != std::string::npos)
    name_.refuse("cannot be read: its name has a byte that is 0");
  // The kind is checked before open(), because opening a pipe would let a process continue that
  // waits for a reader of this pipe. If a pipe replaces the file between the two calls, O_NONBLOCK
  // keeps open() from blocking.
  if (::stat(path.c_str(), &status_) == 0) check_kind();
  int const flags =
      O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (symbolic == links::refused ? O_NOFOLLOW : 0);
  descriptor_ = file_descriptor(::open(path.c_str(), flags));
  if (descriptor_.get() < 0 || ::fstat(descriptor_.get(), &status_) != 0)
    name_.fail("cannot be read", errno);
  check_kind();
}

PLAIT_DECL void open_file::read(std::span<std::byte> out, std::size_t at) const {
  while (!out.empty()) {
    auto const got = ::pread(descriptor_.get(), out.data(), out.size(), static_cast<::off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) name_.fail("cannot be read", errno);
    if (got == 0)
      name_.refuse(concat({"became shorter while it was read: it ends before byte ", at}));
    out = out.subspan(static_cast<std::size_t>(got));
    at += static_cast<std::size_t>(got);
  }
}

PLAIT_DECL void open_file::check_kind() const {
  if (S_ISDIR(status_.st_mode)) name_.refuse("cannot be read: it is a directory");
  if (!S_ISREG(status_.st_mode)) name_.refuse("cannot be read: it is not a regular file");
}

PLAIT_DECL bool mapped_file::map(int file, std::size_t size) {
  if (size == 0) return true;
  void* const data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  if (data == MAP_FAILED) return false;
  data_ = {static_cast<std::byte const*>(data), unmap{size}};
  return true;
}

PLAIT_DECL open_folder::open_folder(std::string const& path, std::string_view kind)
    : descriptor_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_.get() < 0) file_name(kind, path).fail("cannot be read", errno);
}

PLAIT_DECL mapped_file open_folder::map(char const* name) const {
  constexpr int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  file_descriptor const file(::openat(descriptor_.get(), name, flags));
  struct stat status{};
  mapped_file out;
  if (file.get() >= 0 && ::fstat(file.get(), &status) == 0) {
    if (!S_ISREG(status.st_mode)) throw input_error("cannot be read: it is not a regular file");
    if (out.map(file.get(), static_cast<std::size_t>(status.st_size))) return out;
  }
  throw input_error({"cannot be read: ", std::generic_category().message(errno)});
}

PLAIT_DECL partial_file::partial_file(std::string const& path, std::string_view kind, ::mode_t mode)
    : name_(kind, path), target_(path) {
  look_at_target();
  auto const folder = folder_of(target_);
  constexpr int tries = 16;
  for (int i = 0; i < tries; ++i) {
    partial_ =
        concat({folder, (folder == "/" ? "plait-" : "/plait-"), random_digits(), ".partial"});
    descriptor_ = file_descriptor(::open(partial_.c_str(),
                                         O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                                         mode & (replaced_ ? replaced_->st_mode & 0700u : 0777u)));
    if (descriptor_.get() >= 0) return;
    if (errno != EEXIST) break;
  }
  int const code = errno;
  require_folder(name_, folder);
  name_.fail("cannot be written, because no new file can be made in its folder", code);
}

PLAIT_DECL partial_file::~partial_file() {
  struct stat ours{}, found{};
  if (!stays_ && ::fstat(descriptor_.get(), &ours) == 0 && ::lstat(partial_.c_str(), &found) == 0 &&
      ours.st_dev == found.st_dev && ours.st_ino == found.st_ino)
    ::unlink(partial_.c_str());
}

PLAIT_DECL void partial_file::reserve(std::size_t bytes) const {
  if (bytes == 0 || ::fallocate(descriptor_.get(), 0, 0, static_cast<::off_t>(bytes)) == 0) return;
  if (errno == ENOSPC || errno == EFBIG || errno == EDQUOT) name_.fail("cannot be written", errno);
}

PLAIT_DECL void partial_file::write(std::span<std::byte const> in, std::size_t at) const {
  while (!in.empty()) {
    auto const put = ::pwrite(descriptor_.get(), in.data(), in.size(), static_cast<::off_t>(at));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) name_.fail("cannot be written", errno);
    in = in.subspan(static_cast<std::size_t>(put));
    at += static_cast<std::size_t>(put);
  }
}

PLAIT_DECL void partial_file::commit() {
  or_stay([this] {
    look_at_target();  // the target may have changed since the constructor looked at it
    if (replaced_) keep_access();
  });
  synchronise(descriptor_.get());
  or_stay([this] {
    if (::rename(partial_.c_str(), target_.c_str()) != 0) name_.fail("cannot be written", errno);
  });
  stays_ = true;
  synchronise_folder();
}

PLAIT_DECL bool partial_file::commit_if_new() {
  synchronise(descriptor_.get());
  // link() is used because it fails if the name exists, while rename() would replace the file.
  if (::link(partial_.c_str(), target_.c_str()) != 0) {
    if (errno == EEXIST) return false;
    name_.fail("cannot be written", errno);
  }
  ::unlink(partial_.c_str());
  stays_ = true;
  synchronise_folder();
  return true;
}

PLAIT_DECL std::string partial_file::folder_of(std::string const& path) {
  auto end = path.rfind('/');
  if (end == std::string::npos) return ".";
  while (end > 0 && path[end - 1] == '/') --end;
  return path.substr(0, end == 0 ? 1 : end);
}

PLAIT_DECL void partial_file::look_at_target() {
  replaced_.reset();
  if (target_.empty()) name_.refuse("cannot be written: its name is empty");
  if (target_.find('\0') != std::string::npos)
    name_.refuse("cannot be written: its name has a byte that is 0");
  if (target_.back() == '/') name_.refuse("cannot be written: its name is the name of a folder");
  struct stat found{};
  if (::lstat(target_.c_str(), &found) != 0) {
    if (errno == ENOENT) return;
    name_.fail("cannot be written", errno);
  }
  if (S_ISLNK(found.st_mode)) {
    std::array<char, PATH_MAX> real;  // NOLINT: filled by realpath
    if (::realpath(target_.c_str(), real.data()) == nullptr)
      name_.refuse(concat({"cannot be written: it is a symbolic link that leads nowhere (",
                           std::generic_category().message(errno), ")"}));
    target_ = real.data();
    if (::lstat(target_.c_str(), &found) != 0) name_.fail("cannot be written", errno);
  }
  if (!S_ISREG(found.st_mode))
    name_.refuse("cannot be written: it exists and is not a regular file");
  // The file's own permission is checked, since for a replacement the system requires only write
  // permission for the folder.
  if (::faccessat(AT_FDCWD, target_.c_str(), W_OK, AT_EACCESS) != 0)
    name_.fail("cannot be written", errno);
  replaced_ = found;
}

PLAIT_DECL std::string partial_file::random_digits() const {
  std::uint64_t number = 0;
  if (::getentropy(&number, sizeof number) != 0) name_.fail("cannot be written", errno);
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
  return digits;
}

PLAIT_DECL void partial_file::keep_access() const {
  int const file = descriptor_.get();
  struct stat ours{};
  if (::fstat(file, &ours) != 0) name_.fail("cannot be written", errno);
  ::mode_t mode = replaced_->st_mode & 0777u;
  bool const same = ours.st_uid == replaced_->st_uid && ours.st_gid == replaced_->st_gid;
  if (!same && ::fchown(file, replaced_->st_uid, replaced_->st_gid) != 0 &&
      ::fchown(file, static_cast<::uid_t>(-1), replaced_->st_gid) != 0)
    // The rights of the group are removed, since the file's group may be a different one now.
    mode &= 0707u;
  if (::fchmod(file, mode) != 0)
    name_.fail("cannot be given the access mode of the old file", errno);
  // If the replaced file has an access control list, the group bits of its mode are not the rights
  // of the group but the most that the list can grant.
  constexpr char const* list = "system.posix_acl_access";
  std::array<char, 4096> entries;  // NOLINT: filled by getxattr
  auto const bytes = ::getxattr(target_.c_str(), list, entries.data(), entries.size());
  bool const has_list = bytes > 0 || (bytes < 0 && errno == ERANGE);
  if (has_list &&
      (bytes < 0 ||
       ::fsetxattr(file, list, entries.data(), static_cast<std::size_t>(bytes), 0) != 0) &&
      ::fchmod(file, mode & 0707u) != 0)
    name_.fail("cannot be given the access mode of the old file", errno);
}

PLAIT_DECL void partial_file::synchronise_folder() const {
  file_descriptor const folder(
      ::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // A folder that is writable but not readable cannot be opened.
  if (folder.get() < 0 && errno == EACCES) return;
  // EINVAL is accepted, because some file systems cannot synchronise a folder.
  if (folder.get() < 0 || (::fsync(folder.get()) != 0 && errno != EINVAL))
    name_.fail("is written, but its folder cannot be brought to the disk", errno);
}

PLAIT_DECL growing_file::growing_file(std::string const& path, std::string_view kind, start where)
    : name_(kind, path) {
  if (path.find('\0') != std::string::npos)
    name_.refuse("cannot be written: its name has a byte that is 0");
  struct stat found{};
  if (::stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode))
    name_.refuse("cannot be written: it is not a regular file");
  constexpr int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  int const only_new = where == start::new_file ? O_EXCL : 0;
  descriptor_ = file_descriptor(::open(path.c_str(), flags | only_new, 0666));
  if (descriptor_.get() < 0 && errno == EEXIST)
    name_.refuse("exists already; choose another name, or remove the file first");
  if (descriptor_.get() < 0 || ::fstat(descriptor_.get(), &found) != 0)
    name_.fail("cannot be written", errno);
  if (!S_ISREG(found.st_mode)) name_.refuse("cannot be written: it is not a regular file");
  // A file system without locks returns other errors, which are ignored.
  if (::flock(descriptor_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    name_.refuse("cannot be written: another writer has it open");
  if (where == start::empty && ::ftruncate(descriptor_.get(), 0) != 0)
    name_.fail("cannot be written", errno);
}

PLAIT_DECL void growing_file::append(std::string_view text) const {
  while (!text.empty()) {
    auto const put = ::write(descriptor_.get(), text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) name_.fail("cannot be written", errno);
    text.remove_prefix(static_cast<std::size_t>(put));
  }
}

}  // namespace plait::detail
