// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/quote.hpp"

// With shared_file.hpp and checkpoint/disk.hpp the only place of plait that opens, maps or writes
// files. Paths are strings here, which a std::filesystem::path turns into by itself: <filesystem>
// is a twentieth of what a compiler does for a program that needs none of the rest of it.
namespace plait::detail {

/// What messages call a file: "text file 'a/b'".
class file_name {
 public:
  file_name(std::string_view kind, std::string const& path);

  [[noreturn]] void refuse(std::string const& what) const;
  [[noreturn]] void refuse_part(std::string const& part, std::string const& what) const;
  [[noreturn]] void fail(std::string const& what, int code) const;

 private:
  std::string text_;
};

/// Refuses what is to be written if it has nowhere to be.
[[gnu::cold]] void require_folder(file_name const& name, std::string const& folder);

/// Whether there is a regular file of this name.
[[nodiscard]] bool is_regular_file(std::string const& path);

/// Leaves the first `size` bytes of a file.
void cut_file(std::string const& path, std::string_view kind, std::size_t size);

/// Owns what open() gave.
class file_descriptor {
 public:
  explicit file_descriptor(int value = -1) : value_(value) {}
  file_descriptor(file_descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  file_descriptor& operator=(file_descriptor&& other) noexcept;
  ~file_descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  [[nodiscard]] int get() const { return value_; }
  /// It is the caller's now.
  [[nodiscard]] int release() { return std::exchange(value_, -1); }

 private:
  int value_;
};

/// A regular file, open for reading. Reads name their position, so that several threads may read.
///
/// Errors: input_error that names the kind of file, its path and what the system says; also if it
///         is no regular file: a pipe could be waited for, and a device read, for ever.
class open_file {
 public:
  enum class links { followed, refused };

  explicit open_file(std::string const& path, std::string_view kind = "file",
                     links symbolic = links::followed);

  [[nodiscard]] file_name const& name() const { return name_; }
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }

  /// What was true when the file was opened.
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(status_.st_size); }
  [[nodiscard]] ::uid_t owner() const { return status_.st_uid; }

  /// Fills `out` from byte `at` on.
  void read(std::span<std::byte> out, std::size_t at) const;

 private:
  void check_kind() const;

  file_name name_;
  file_descriptor descriptor_;
  struct stat status_{};
};

struct unmap {
  std::size_t size = 0;
  void operator()(std::byte const* data) const {
    ::munmap(const_cast<std::byte*>(data), size);  // NOLINT: munmap changes nothing in it
  }
};

/// A whole file, mapped into memory for reading. Nobody may change it meanwhile: bytes that have
/// been checked could be others when they are used, and to read behind the end of a file that was
/// cut short ends the program by the signal SIGBUS.
///
/// Errors: as open_file.
class mapped_file {
 public:
  explicit mapped_file(open_file const& file) {
    if (!map(file.descriptor(), file.size())) file.name().fail("cannot be read", errno);
  }

  [[nodiscard]] std::span<std::byte const> bytes() const {
    return {data_.get(), data_.get_deleter().size};
  }

 private:
  friend class open_folder;
  mapped_file() = default;

  bool map(int file, std::size_t size);

  std::unique_ptr<std::byte const, unmap> data_;
};

/// A folder that is open, for many files in it to be read.
///
/// Errors: input_error that names the kind of folder, its path and what the system says.
class open_folder {
 public:
  open_folder(std::string const& path, std::string_view kind);

  /// Maps the file of that name below the folder.
  ///
  /// Cost:   no memory for its name.
  /// Errors: input_error, which does not name the file, also if it is no regular file.
  [[nodiscard]] mapped_file map(char const* name) const;

 private:
  file_descriptor descriptor_;
};

/// A file that appears under its name only when it is complete. It is written as
/// plait-<16 digits>.partial in the folder of `path`, where commit() moves it; an object that ends
/// before that removes it. What stays behind when the program is killed has that name, and `path`
/// is the old file or the new one, whenever that happens. A file that is complete and cannot be
/// moved also stays, and the message names it.
///
/// A file that is replaced gives the new one its access mode and list and, if the system allows,
/// its owner and group; a symbolic link stays, and what it leads to is replaced.
///
/// Errors:  input_error that names the kind of file, `path` and what the system says; also if
///          `path` is there and not a regular file (replacing would destroy a device such as
///          /dev/null), or may not be written.
/// Threads: write() may run at the same time for other bytes.
class partial_file {
 public:
  /// `mode`: of a new file, less what the process masks (umask).
  explicit partial_file(std::string const& path, std::string_view kind = "file",
                        ::mode_t mode = 0666);
  ~partial_file();
  partial_file(partial_file const&) = delete;
  partial_file& operator=(partial_file const&) = delete;

  [[nodiscard]] file_name const& name() const { return name_; }

  /// Takes room on the disk for so many bytes, where the file system can do that: a full disk is an
  /// error now and not later.
  void reserve(std::size_t bytes) const;

  void write(std::span<std::byte const> in, std::size_t at) const;

  /// Makes the file appear; what was there under its name is gone. On return data and name are on
  /// the disk.
  void commit();

  /// The same, but false, and nothing has changed, if there is a file of the name.
  [[nodiscard]] bool commit_if_new();

 private:
  static std::string folder_of(std::string const& path);

  /// Calls work(); when that fails the file stays under the name that it has.
  template <class Work>
  void or_stay(Work work) {
    try {
      work();
    } catch (input_error const& problem) {
      stays_ = true;
      throw input_error(
          {problem.what(), "; what should be there is in ", path_in_quotes(partial_)});
    }
  }

  void look_at_target();

  [[nodiscard]] std::string random_digits() const;

  // The owner first: to change it may take bits of the mode away.
  void keep_access() const;

  void synchronise(int descriptor) const {
    if (::fsync(descriptor) != 0) name_.fail("cannot be written", errno);
  }

  // A file's name is in its folder, which has a place of its own on the disk.
  void synchronise_folder() const;

  file_name name_;
  std::string target_, partial_;
  std::optional<struct stat> replaced_;
  file_descriptor descriptor_;
  bool stays_ = false;
};

/// A regular file that grows at its end, for others to read meanwhile: each append() is there,
/// whole, when it returns.
///
/// Errors: input_error that names the kind of file, its path and what the system says; also if it
///         is no regular file.
class growing_file {
 public:
  enum class start { empty, at_end };

  explicit growing_file(std::string const& path, std::string_view kind, start where);

  [[nodiscard]] file_name const& name() const { return name_; }

  void append(std::string_view text) const;

 private:
  file_name name_;
  file_descriptor descriptor_;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/core/file.ipp"
#endif
