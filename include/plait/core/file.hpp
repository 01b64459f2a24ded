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

// This header, shared_file.hpp and checkpoint/disk.hpp have the only code in plait that opens, maps
// or writes files. Paths are strings here, since std::filesystem::path converts to a string
// implicitly: <filesystem> takes a twentieth of the compile time of a program that needs nothing
// else from it.
namespace plait::detail {

/// The name of a file in messages: "text file 'a/b'".
class file_name {
 public:
  file_name(std::string_view kind, std::string const& path);

  [[noreturn]] void refuse(std::string const& what) const;
  [[noreturn]] void refuse_part(std::string const& part, std::string const& what) const;
  [[noreturn]] void fail(std::string const& what, int code) const;

 private:
  std::string text_;
};

/// Checks that the folder in which a file is to be written exists; else throws an error.
[[gnu::cold]] void require_folder(file_name const& name, std::string const& folder);

/// Returns true if there is a regular file of this name.
[[nodiscard]] bool is_regular_file(std::string const& path);

/// Truncates a file to its first `size` bytes.
void cut_file(std::string const& path, std::string_view kind, std::size_t size);

/// Owns a descriptor that open() returned.
class file_descriptor {
 public:
  explicit file_descriptor(int value = -1) : value_(value) {}
  file_descriptor(file_descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  file_descriptor& operator=(file_descriptor&& other) noexcept;
  ~file_descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  [[nodiscard]] int get() const { return value_; }
  /// Returns the descriptor; the caller must close it.
  [[nodiscard]] int release() { return std::exchange(value_, -1); }

 private:
  int value_;
};

/// A regular file, open for reading. Each read states its position, so that several threads may
/// read at the same time.
///
/// Errors: input_error that names the kind of file, its path and the system's error; also if it is
///         not a regular file: opening a pipe or reading a device could block forever.
class open_file {
 public:
  enum class links { followed, refused };

  explicit open_file(std::string const& path, std::string_view kind = "file",
                     links symbolic = links::followed);

  [[nodiscard]] file_name const& name() const { return name_; }
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }

  /// The size and other properties, as they were when the file was opened.
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(status_.st_size); }
  [[nodiscard]] ::uid_t owner() const { return status_.st_uid; }

  /// Fills `out` with bytes of the file, from byte `at` on.
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

/// A whole file, mapped into memory for reading. No process may change the file while it is mapped:
/// bytes could differ from the bytes that were checked, and a read past the end of a truncated file
/// raises the signal SIGBUS, which ends the program.
///
/// Errors: as for open_file.
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

/// An open folder from which many files are read.
///
/// Errors: input_error that names the kind of folder, its path and the system's error.
class open_folder {
 public:
  open_folder(std::string const& path, std::string_view kind);

  /// Maps the file `name` in the folder into memory.
  ///
  /// Cost:   allocates no memory for the name.
  /// Errors: input_error, which does not name the file; also if it is not a regular file.
  [[nodiscard]] mapped_file map(char const* name) const;

 private:
  file_descriptor descriptor_;
};

/// A file that appears under its name only when it is complete. It is written as plait-<16
/// digits>.partial in the folder of `path`, and commit() renames it to `path`; the destructor of an
/// object that was not committed removes it. If the program is killed, the temporary file remains;
/// at every moment `path` names either the old file or the complete new file. A complete file that
/// cannot be renamed also remains, and the error names it.
///
/// The new file takes over the access mode and access control list of the file that it replaces
/// and, if the system allows it, also its owner and group. If `path` is a symbolic link, the link
/// stays, and the file to which it points is replaced.
///
/// Errors:  input_error that names the kind of file, `path` and the system's error; also if `path`
///          exists and is not a regular file (replacing would destroy a device such as /dev/null),
///          or is not writable.
/// Threads: several threads may call write() at the same time for different bytes.
class partial_file {
 public:
  /// `mode`: the access mode of a new file, before the process's umask is applied.
  explicit partial_file(std::string const& path, std::string_view kind = "file",
                        ::mode_t mode = 0666);
  ~partial_file();
  partial_file(partial_file const&) = delete;
  partial_file& operator=(partial_file const&) = delete;

  [[nodiscard]] file_name const& name() const { return name_; }

  /// Reserves this many bytes on the disk, if the file system can, so that a full disk is an error
  /// now and not during a later write.
  void reserve(std::size_t bytes) const;

  void write(std::span<std::byte const> in, std::size_t at) const;

  /// Renames the file to `path`, which replaces an existing file. On return, data and name are on
  /// the disk.
  void commit();

  /// Does the same as commit(), but if a file already has the name, it changes nothing and returns
  /// false.
  [[nodiscard]] bool commit_if_new();

 private:
  static std::string folder_of(std::string const& path);

  /// Calls work(), which gives the complete file its name. If work() throws, the file is kept under
  /// its temporary name.
  template <class Work>
  void or_stay(Work work) {
    try {
      work();
    } catch (input_error const& problem) {
      stays_ = true;
      throw input_error({problem.what(), "; the complete file is in ", path_in_quotes(partial_)});
    }
  }

  void look_at_target();

  [[nodiscard]] std::string random_digits() const;

  // Gives the file the owner and access mode of the file that it replaces. The owner is set first,
  // because changing the owner may clear bits of the mode.
  void keep_access() const;

  void synchronise(int descriptor) const {
    if (::fsync(descriptor) != 0) name_.fail("cannot be written", errno);
  }

  // Makes sure that the file's name is on the disk. The name is stored in the folder, which is
  // synchronised separately from the file.
  void synchronise_folder() const;

  file_name name_;
  std::string target_, partial_;
  std::optional<struct stat> replaced_;
  file_descriptor descriptor_;
  bool stays_ = false;
};

/// A regular file to which text is appended while other processes may read it. When append()
/// returns, the whole text is in the file.
///
/// Errors: input_error that names the kind of file, its path and the system's error; also if it is
///         not a regular file.
class growing_file {
 public:
  enum class start {
    empty,
    at_end,
    new_file  ///< there must be no file of this name
  };

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
