// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/checkpoint/disk.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>

#include <cstdint>
#include <cstdio>
#include <memory>

#include "plait/core/concat.hpp"

namespace plait::detail {

PLAIT_DECL int system_disk::write_file(path const& name, std::span<std::byte const> in) {
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

PLAIT_DECL std::string system_disk::read_file(path const& name, std::size_t most,
                                              char const* kind) {
  open_file const file(name, kind);
  if (file.size() > most)
    file.name().refuse(concat({"has ", file.size(), " bytes; at most ", most, " are allowed"}));
  std::string text(file.size(), '\0');
  file.read(std::as_writable_bytes(std::span(text)), 0);
  return text;
}

PLAIT_DECL int system_disk::rename(path const& from, path const& to) {
  struct stat found{};
  // The existence of `to` is checked, because ::rename would replace an empty folder.
  if (::lstat(to.c_str(), &found) == 0) return EEXIST;
  return code_of(::rename(from.c_str(), to.c_str()));
}

PLAIT_DECL int system_disk::sync_folder(path const& folder) {
  file_descriptor const open(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (open.get() < 0) return errno;
  // EINVAL is accepted, because some file systems cannot synchronise a folder.
  return ::fsync(open.get()) == 0 || errno == EINVAL ? 0 : errno;
}

PLAIT_DECL int system_disk::names(path const& folder, links symbolic,
                                  std::vector<std::string>& out) {
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

PLAIT_DECL int system_disk::link(path const& from, path const& to) {
  int const code = code_of(::link(from.c_str(), to.c_str()));
  bool const is_unknown = code == EPERM || code == EOPNOTSUPP || code == ENOSYS;
  return is_unknown ? rename(from, to) : code;
}

PLAIT_DECL int system_disk::lock(path const& name, lock_for whom, lock_of what,
                                 file_descriptor& out) {
  int const make = what == lock_of::any_file ? O_CREAT : 0;
  int const flags = O_RDWR | make | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  out = file_descriptor(::open(name.c_str(), flags, 0666));
  if (out.get() < 0) return errno;
  return code_of(::flock(out.get(), (whom == lock_for::one ? LOCK_EX : LOCK_SH) | LOCK_NB));
}

PLAIT_DECL std::string system_disk::random_digits() {
  std::uint64_t number = 0;
  if (::getentropy(&number, sizeof number) != 0)
    throw input_error("checkpoint: the system did not return random numbers");
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
  return digits;
}

PLAIT_DECL disk& the_disk() {
  static system_disk one;
  return one;
}

}  // namespace plait::detail
