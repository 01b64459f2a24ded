// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/shared_file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "plait/core/concat.hpp"

namespace plait::detail {

PLAIT_DECL own_folder::own_folder(std::filesystem::path path, std::string_view kind)
    : path_(std::move(path)), name_(kind, path_) {
  if (path_.empty() || path_.native().find('\0') != std::string::npos)
    name_.refuse("cannot be made: its name is empty or has a byte that is 0");
  if (::mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST) name_.fail("cannot be made", errno);
  descriptor_ =
      file_descriptor(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (descriptor_.get() < 0 && (errno == ENOTDIR || errno == ELOOP))
    name_.refuse("exists and is not a folder, or is only a symbolic link to one");
  struct stat found{};
  if (descriptor_.get() < 0 || ::fstat(descriptor_.get(), &found) != 0)
    name_.fail("cannot be used", errno);
  if (found.st_uid != ::geteuid())
    name_.refuse(concat(
        {"belongs to user ", found.st_uid, ", not to user ", ::geteuid(), " of this process"}));
  if ((found.st_mode & 022u) != 0)
    name_.refuse("may be written by other users; remove that right or choose another folder");
}

PLAIT_DECL shared_file::shared_file(own_folder const& folder, std::string name, std::size_t bytes,
                                    std::string_view kind)
    : folder_(&folder), own_name_(std::move(name)), size_(bytes) {
  file_name const text(kind, folder.path() / own_name_);
  ::rlimit most{};  // writing beyond this limit would raise a signal, too
  if (::getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur < bytes)
    text.refuse(concat({"cannot be written: it has ", bytes, " bytes, and the limit for files is ",
                        most.rlim_cur}));
  file_descriptor const file(::openat(folder.descriptor(), own_name_.c_str(),
                                      O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.get() < 0) text.fail("cannot be made", errno);
  int code = EINTR;
  while (code == EINTR) code = ::posix_fallocate(file.get(), 0, static_cast<::off_t>(bytes));
  if (code == 0) {
    data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (data_ != MAP_FAILED) return;
    code = errno;
  }
  remove();
  text.fail("cannot be written", code);
}

}  // namespace plait::detail
