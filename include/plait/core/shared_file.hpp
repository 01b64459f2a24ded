// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/file.hpp"

namespace plait::detail {

/// A folder of this user's, into which others can put nothing. It is made, for the user only, if it
/// is not there; the folder above it must be.
///
/// Errors: input_error that names the kind of folder, its path and what the system says; also if it
///         is a symbolic link, belongs to another user, or may be written by others.
class own_folder {
 public:
  own_folder(std::filesystem::path path, std::string_view kind)
      : path_(std::move(path)), name_(kind, path_) {
    if (path_.empty() || path_.native().find('\0') != std::string::npos)
      name_.refuse("cannot be made: its name is empty or has a byte that is 0");
    if (::mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST) name_.fail("cannot be made", errno);
    descriptor_ =
        file_descriptor(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (descriptor_.get() < 0 && (errno == ENOTDIR || errno == ELOOP))
      name_.refuse("is there and is no folder, or only a symbolic link to one");
    struct stat found{};
    if (descriptor_.get() < 0 || ::fstat(descriptor_.get(), &found) != 0)
      name_.fail("cannot be used", errno);
    if (found.st_uid != ::geteuid())
      name_.refuse(concat(
          {"belongs to user ", found.st_uid, ", not to user ", ::geteuid(), " of this process"}));
    if ((found.st_mode & 022u) != 0)
      name_.refuse("may be written by other users; take that right away or choose another folder");
  }

  [[nodiscard]] std::filesystem::path const& path() const { return path_; }
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }
  /// If nothing is in it.
  void remove_if_empty() const noexcept { ::rmdir(path_.c_str()); }

 private:
  std::filesystem::path path_;
  file_name name_;
  file_descriptor descriptor_;
};

/// A new file, for its user only, whose bytes are memory that others see while it is written; they
/// are 0 at first. What has been written is there however the process ends. The room on the disk is
/// taken at once: to write where there is none would end the program by the signal SIGBUS.
///
/// Errors: input_error that names the kind of file, its path and what the system says; also if
///         something has the name already.
class shared_file {
 public:
  shared_file(own_folder const& folder, std::string name, std::size_t bytes, std::string_view kind)
      : folder_(&folder), own_name_(std::move(name)), size_(bytes) {
    file_name const text(kind, folder.path() / own_name_);
    ::rlimit most{};  // to go beyond it is a signal, too
    if (::getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur < bytes)
      text.refuse(concat({"cannot be written: it has ", bytes,
                          " bytes, and the limit for files is ", most.rlim_cur}));
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
  shared_file(shared_file const&) = delete;
  shared_file& operator=(shared_file const&) = delete;
  ~shared_file() { ::munmap(data_, size_); }

  [[nodiscard]] std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(data_), size_};
  }
  /// Takes the name away; the bytes can be used on.
  void remove() const noexcept { ::unlinkat(folder_->descriptor(), own_name_.c_str(), 0); }

 private:
  own_folder const* folder_;
  std::string own_name_;
  std::size_t size_;
  void* data_ = MAP_FAILED;
};

}  // namespace plait::detail
