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

/// A folder of this user's, into which others can put nothing. It is made, for the user only, if it
/// is not there; the folder above it must be.
///
/// Errors: input_error that names the kind of folder, its path and what the system says; also if it
///         is a symbolic link, belongs to another user, or may be written by others.
class own_folder {
 public:
  own_folder(std::filesystem::path path, std::string_view kind);

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
  shared_file(own_folder const& folder, std::string name, std::size_t bytes, std::string_view kind);
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

#if PLAIT_HEADER_ONLY
#include "plait/core/shared_file.ipp"
#endif
