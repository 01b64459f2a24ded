// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/quote.hpp"

// With shared_file.hpp and checkpoint/disk.hpp the only place of plait that opens, maps or writes
// files. Paths are strings here, which a std::filesystem::path turns into by itself: <filesystem>
// is a twentieth of what a compiler does for a program that needs none of the rest of it.
namespace plait::detail {

/// What messages call a file: "text file 'a/b'".
class file_name {
 public:
  file_name(std::string_view kind, std::string const& path)
      : text_(concat({kind, " ", path_in_quotes(path)})) {}

  [[noreturn]] void refuse(std::string const& what) const { throw input_error({text_, " ", what}); }
  [[noreturn]] void refuse_part(std::string const& part, std::string const& what) const {
    throw input_error({text_, ": ", part, " ", what});
  }
  [[noreturn]] void fail(std::string const& what, int code) const {
    refuse(concat({what, ": ", std::generic_category().message(code)}));
  }

 private:
  std::string text_;
};

/// Refuses what is to be written if it has nowhere to be.
[[gnu::cold]] inline void require_folder(file_name const& name, std::string const& folder) {
  if (struct stat found{}; !folder.empty() && ::stat(folder.c_str(), &found) != 0)
    name.refuse(concat(
        {"cannot be written: folder ", path_in_quotes(folder), " is not there; make it first"}));
}

/// Whether there is a regular file of this name.
[[nodiscard]] inline bool is_regular_file(std::string const& path) {
  struct stat found{};
  return ::stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode);
}

/// Leaves the first `size` bytes of a file.
inline void cut_file(std::string const& path, std::string_view kind, std::size_t size) {
  if (::truncate(path.c_str(), static_cast<::off_t>(size)) != 0)
    file_name(kind, path).fail("cannot be written", errno);
}

/// Owns what open() gave.
class file_descriptor {
 public:
  explicit file_descriptor(int value = -1) : value_(value) {}
  file_descriptor(file_descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  file_descriptor& operator=(file_descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
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
                     links symbolic = links::followed)
      : name_(kind, path) {
    if (path.find('\0') != std::string::npos)
      name_.refuse("cannot be read: its name has a byte that is 0");
    // A pipe is not even opened: who waits to write it would be told that it has a reader. Should
    // one come between, O_NONBLOCK keeps the open from waiting.
    if (::stat(path.c_str(), &status_) == 0) check_kind();
    int const flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY |
                      (symbolic == links::refused ? O_NOFOLLOW : 0);
    descriptor_ = file_descriptor(::open(path.c_str(), flags));
    if (descriptor_.get() < 0 || ::fstat(descriptor_.get(), &status_) != 0)
      name_.fail("cannot be read", errno);
    check_kind();
  }

  [[nodiscard]] file_name const& name() const { return name_; }
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }

  /// What was true when the file was opened.
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(status_.st_size); }
  [[nodiscard]] ::uid_t owner() const { return status_.st_uid; }

  /// Fills `out` from byte `at` on.
  void read(std::span<std::byte> out, std::size_t at) const {
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

 private:
  void check_kind() const {
    if (S_ISDIR(status_.st_mode)) name_.refuse("cannot be read: it is a directory");
    if (!S_ISREG(status_.st_mode)) name_.refuse("cannot be read: it is not a regular file");
  }

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

  bool map(int file, std::size_t size) {
    if (size == 0) return true;
    void* const data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED) return false;
    data_ = {static_cast<std::byte const*>(data), unmap{size}};
    return true;
  }

  std::unique_ptr<std::byte const, unmap> data_;
};

/// A folder that is open, for many files in it to be read.
///
/// Errors: input_error that names the kind of folder, its path and what the system says.
class open_folder {
 public:
  open_folder(std::string const& path, std::string_view kind)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (descriptor_.get() < 0) file_name(kind, path).fail("cannot be read", errno);
  }

  /// Maps the file of that name below the folder.
  ///
  /// Cost:   no memory for its name.
  /// Errors: input_error, which does not name the file, also if it is no regular file.
  [[nodiscard]] mapped_file map(char const* name) const {
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
                        ::mode_t mode = 0666)
      : name_(kind, path), target_(path) {
    look_at_target();
    auto const folder = folder_of(target_);
    constexpr int tries = 16;
    for (int i = 0; i < tries; ++i) {
      partial_ =
          concat({folder, (folder == "/" ? "plait-" : "/plait-"), random_digits(), ".partial"});
      descriptor_ = file_descriptor(
          ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                 mode & (replaced_ ? replaced_->st_mode & 0700u : 0777u)));
      if (descriptor_.get() >= 0) return;
      if (errno != EEXIST) break;
    }
    int const code = errno;
    require_folder(name_, folder);
    name_.fail("cannot be written, since its folder takes no new file", code);
  }
  ~partial_file() {
    struct stat ours{}, found{};
    if (!stays_ && ::fstat(descriptor_.get(), &ours) == 0 &&
        ::lstat(partial_.c_str(), &found) == 0 && ours.st_dev == found.st_dev &&
        ours.st_ino == found.st_ino)
      ::unlink(partial_.c_str());
  }
  partial_file(partial_file const&) = delete;
  partial_file& operator=(partial_file const&) = delete;

  [[nodiscard]] file_name const& name() const { return name_; }

  /// Takes room on the disk for so many bytes, where the file system can do that: a full disk is an
  /// error now and not later.
  void reserve(std::size_t bytes) const {
    if (bytes == 0 || ::fallocate(descriptor_.get(), 0, 0, static_cast<::off_t>(bytes)) == 0)
      return;
    if (errno == ENOSPC || errno == EFBIG || errno == EDQUOT)
      name_.fail("cannot be written", errno);
  }

  void write(std::span<std::byte const> in, std::size_t at) const {
    while (!in.empty()) {
      auto const put = ::pwrite(descriptor_.get(), in.data(), in.size(), static_cast<::off_t>(at));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) name_.fail("cannot be written", errno);
      in = in.subspan(static_cast<std::size_t>(put));
      at += static_cast<std::size_t>(put);
    }
  }

  /// Makes the file appear; what was there under its name is gone. On return data and name are on
  /// the disk.
  void commit() {
    or_stay([this] {
      look_at_target();  // it may have changed since
      if (replaced_) keep_access();
    });
    synchronise(descriptor_.get());
    or_stay([this] {
      if (::rename(partial_.c_str(), target_.c_str()) != 0) name_.fail("cannot be written", errno);
    });
    stays_ = true;
    synchronise_folder();
  }

  /// The same, but false, and nothing has changed, if there is a file of the name.
  [[nodiscard]] bool commit_if_new() {
    synchronise(descriptor_.get());
    // A link is refused where a file is; a rename would put ours in its place.
    if (::link(partial_.c_str(), target_.c_str()) != 0) {
      if (errno == EEXIST) return false;
      name_.fail("cannot be written", errno);
    }
    ::unlink(partial_.c_str());
    stays_ = true;
    synchronise_folder();
    return true;
  }

 private:
  static std::string folder_of(std::string const& path) {
    auto end = path.rfind('/');
    if (end == std::string::npos) return ".";
    while (end > 0 && path[end - 1] == '/') --end;
    return path.substr(0, end == 0 ? 1 : end);
  }

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

  void look_at_target() {
    replaced_.reset();
    if (target_.empty()) name_.refuse("cannot be written: its name is empty");
    if (target_.find('\0') != std::string::npos)
      name_.refuse("cannot be written: its name has a byte that is 0");
    if (target_.back() == '/') name_.refuse("cannot be written: its name is that of a folder");
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
      name_.refuse("cannot be written: it is there and not a regular file");
    // Its folder alone would allow that it is replaced.
    if (::faccessat(AT_FDCWD, target_.c_str(), W_OK, AT_EACCESS) != 0)
      name_.fail("cannot be written", errno);
    replaced_ = found;
  }

  [[nodiscard]] std::string random_digits() const {
    std::uint64_t number = 0;
    if (::getentropy(&number, sizeof number) != 0) name_.fail("cannot be written", errno);
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
    return digits;
  }

  // The owner first: to change it may take bits of the mode away.
  void keep_access() const {
    int const file = descriptor_.get();
    struct stat ours{};
    if (::fstat(file, &ours) != 0) name_.fail("cannot be written", errno);
    ::mode_t mode = replaced_->st_mode & 0777u;
    bool const same = ours.st_uid == replaced_->st_uid && ours.st_gid == replaced_->st_gid;
    if (!same && ::fchown(file, replaced_->st_uid, replaced_->st_gid) != 0 &&
        ::fchown(file, static_cast<::uid_t>(-1), replaced_->st_gid) != 0)
      mode &= 0707u;  // what one group may, another may not
    if (::fchmod(file, mode) != 0)
      name_.fail("cannot be given the access mode of the old file", errno);
    // Where there is a list, the bits of the group are not the group's, but the most that the list
    // can give.
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

  void synchronise(int descriptor) const {
    if (::fsync(descriptor) != 0) name_.fail("cannot be written", errno);
  }

  // A file's name is in its folder, which has a place of its own on the disk.
  void synchronise_folder() const {
    file_descriptor const folder(
        ::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder.get() < 0 && errno == EACCES) return;  // it may be written, but not read
    // Some file systems have nothing to do for a folder and say EINVAL.
    if (folder.get() < 0 || (::fsync(folder.get()) != 0 && errno != EINVAL))
      name_.fail("is written, but its folder cannot be brought to the disk", errno);
  }

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

  explicit growing_file(std::string const& path, std::string_view kind, start where)
      : name_(kind, path) {
    if (path.find('\0') != std::string::npos)
      name_.refuse("cannot be written: its name has a byte that is 0");
    struct stat found{};
    if (::stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode))
      name_.refuse("cannot be written: it is not a regular file");
    constexpr int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    descriptor_ = file_descriptor(::open(path.c_str(), flags, 0666));
    if (descriptor_.get() < 0 || ::fstat(descriptor_.get(), &found) != 0)
      name_.fail("cannot be written", errno);
    if (!S_ISREG(found.st_mode)) name_.refuse("cannot be written: it is not a regular file");
    // Some file systems know no locks.
    if (::flock(descriptor_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
      name_.refuse("cannot be written: another writer has it");
    if (where == start::empty && ::ftruncate(descriptor_.get(), 0) != 0)
      name_.fail("cannot be written", errno);
  }

  [[nodiscard]] file_name const& name() const { return name_; }

  void append(std::string_view text) const {
    while (!text.empty()) {
      auto const put = ::write(descriptor_.get(), text.data(), text.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) name_.fail("cannot be written", errno);
      text.remove_prefix(static_cast<std::size_t>(put));
    }
  }

 private:
  file_name name_;
  file_descriptor descriptor_;
};

}  // namespace plait::detail
