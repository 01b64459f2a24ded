// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "plait/core/error.hpp"
#include "plait/core/file.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// A folder that belongs to this user and in which other users cannot create files. If it does not
/// exist, it is created for this user only; its parent folder must exist.
///
/// Errors: input_error that names the kind of folder, its path and the system's error; also if it
///         is a symbolic link, belongs to another user, or is writable by other users.
class own_folder {
 public:
  own_folder(std::filesystem::path path, std::string_view kind);

  [[nodiscard]] std::filesystem::path const& path() const { return path_; }
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }
  /// Removes the folder if it is empty.
  void remove_if_empty() const noexcept { ::rmdir(path_.c_str()); }

 private:
  std::filesystem::path path_;
  file_name name_;
  file_descriptor descriptor_;
};

/// A new file, accessible to this user only, that is mapped into memory, so that writing to the
/// memory changes the file. Other processes can map it at the same time. Its bytes are 0 at first.
/// Written bytes stay in the file however the process ends. The disk space is reserved at once,
/// because on a full disk a write to the memory would raise the signal SIGBUS, which ends the
/// program.
///
/// Errors: input_error that names the kind of file, its path and the system's error; also if a file
///         of that name exists.
class shared_file {
 public:
  shared_file(own_folder const& folder, std::string name, std::size_t bytes, std::string_view kind);
  shared_file(shared_file const&) = delete;
  shared_file& operator=(shared_file const&) = delete;
  ~shared_file() { ::munmap(data_, size_); }

  [[nodiscard]] std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(data_), size_};
  }
  /// Removes the file's name; the mapped bytes stay usable.
  void remove() const noexcept { ::unlinkat(folder_->descriptor(), own_name_.c_str(), 0); }

 private:
  own_folder const* folder_;
  std::string own_name_;
  std::size_t size_;
  void* data_ = MAP_FAILED;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/core/shared_file.ipp"
#endif
