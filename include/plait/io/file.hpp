// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "plait/core/error.hpp"

namespace plait::detail {

/// A text from outside as part of a message: short, and without control characters.
inline std::string in_quotes(std::string_view text) {
  std::string out = "'";
  for (char const c : text.substr(0, 80)) out += static_cast<unsigned char>(c) < 32 ? '?' : c;
  return out + (text.size() > 80 ? "...'" : "'");
}

enum class open_for { reading, writing_anew };

/// An open file. Reading and writing name the position, so that several threads may do so.
///
/// Errors: input_error that names the path and what the system says.
class open_file {
 public:
  open_file(std::string path, open_for purpose) : path_(std::move(path)) {
    int const flags = purpose == open_for::reading ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC;
    descriptor_ = ::open(path_.c_str(), flags | O_CLOEXEC, 0666);
    if (descriptor_ < 0) fail("cannot be opened", errno);
  }
  ~open_file() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  open_file(open_file const&) = delete;
  open_file& operator=(open_file const&) = delete;

  [[noreturn]] void fail(std::string const& what, int code) const {
    throw input_error("file " + in_quotes(path_) + " " + what + ": " +
                      std::generic_category().message(code));
  }

  /// Errors: also input_error if this is no regular file.
  [[nodiscard]] std::size_t size() const {
    struct stat status{};
    if (::fstat(descriptor_, &status) != 0) fail("cannot be read", errno);
    if (!S_ISREG(status.st_mode))
      throw input_error("file " + in_quotes(path_) + " cannot be read: it is not a regular file");
    return static_cast<std::size_t>(status.st_size);
  }

  void read(std::span<std::byte> out, std::size_t at) const {
    while (!out.empty()) {
      auto const got = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail("cannot be read", errno);
      if (got == 0)
        throw input_error("file " + in_quotes(path_) + " became shorter while it was read: it " +
                          "ends before byte " + std::to_string(at));
      out = out.subspan(static_cast<std::size_t>(got));
      at += static_cast<std::size_t>(got);
    }
  }

  void write(std::span<std::byte const> in, std::size_t at) const {
    while (!in.empty()) {
      auto const put = ::pwrite(descriptor_, in.data(), in.size(), static_cast<off_t>(at));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) fail("cannot be written", errno);
      in = in.subspan(static_cast<std::size_t>(put));
      at += static_cast<std::size_t>(put);
    }
  }

  /// Returns when the data is on the disk.
  void synchronise() const {
    if (::fsync(descriptor_) != 0) fail("cannot be written", errno);
  }

 private:
  std::string path_;
  int descriptor_ = -1;
};

/// A file that appears under its name only when it is complete: it is written as `path` +
/// ".partial", which replaces `path` in commit() and is removed if the object ends before that.
///
/// Errors: as open_file; input_error if `path` is there and not a regular file, since replacing
///         would destroy a device such as /dev/null.
class partial_file {
 public:
  explicit partial_file(std::string path)
      : path_(std::move(path)),
        partial_(path_ + ".partial"),
        file_(checked(), open_for::writing_anew) {}
  ~partial_file() {
    if (!committed_) ::unlink(partial_.c_str());
  }
  partial_file(partial_file const&) = delete;
  partial_file& operator=(partial_file const&) = delete;

  void write(std::span<std::byte const> in, std::size_t at) const { file_.write(in, at); }

  void commit() {
    file_.synchronise();
    if (std::rename(partial_.c_str(), path_.c_str()) != 0)
      file_.fail("cannot be renamed to " + in_quotes(path_), errno);
    committed_ = true;
  }

 private:
  std::string const& checked() const {
    std::error_code ignored;
    auto const status = std::filesystem::status(path_, ignored);
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
      throw input_error("file " + in_quotes(path_) +
                        " cannot be written: it is there and not a regular file");
    return partial_;
  }

  std::string path_;
  std::string partial_;
  open_file file_;
  bool committed_ = false;
};

}  // namespace plait::detail
