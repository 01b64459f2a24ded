// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "plait/backend/process/rendezvous_store.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/file.hpp"

namespace plait::detail {

/// A folder that only its user can read, on a file system that all processes see; each key is a
/// file, which appears complete.
class gloo_folder final : public rendezvous_store {
 public:
  explicit gloo_folder(std::filesystem::path path, bool of_one_start = false)
      : path_(std::move(path)), name_("rendezvous folder", path_), of_one_start_(of_one_start) {}

  [[nodiscard]] std::string name() const override {
    return concat({"rendezvous folder ", path_in_quotes(path_)});
  }
  [[nodiscard]] std::string what_to_check() const override {
    return of_one_start_ ? "have all ranks the same TMPDIR? Or choose a path by PLAIT_RENDEZVOUS"
                         : "do all ranks see this path (PLAIT_RENDEZVOUS)?";
  }

  void make() override {
    if (::mkdir(path_.c_str(), 0700) == 0) return;
    if (errno != EEXIST) name_.fail("cannot be made", errno);
    if (!is_usable()) name_.refuse("has vanished while it was looked at");
  }
  [[nodiscard]] bool put(std::string const& key, std::string_view value) override {
    partial_file out(path_ / key, kind, 0600);
    out.write(std::as_bytes(std::span(value)), 0);
    return out.commit_if_new();
  }
  [[nodiscard]] std::optional<std::string> get(std::string const& key) override {
    auto const path = path_ / key;
    auto const is_there = [&] {
      struct stat found{};
      return is_usable() && (::lstat(path.c_str(), &found) == 0 || errno != ENOENT);
    };
    if (!is_there()) return std::nullopt;
    try {
      open_file const file(path, kind, open_file::links::refused);
      if (file.size() > most_bytes) file.name().refuse("is none of plait: it is too long");
      std::string out(file.size(), '\0');
      file.read(std::as_writable_bytes(std::span(out)), 0);
      return out;
    } catch (input_error const&) {
      if (is_there()) throw;
      return std::nullopt;  // removed meanwhile
    }
  }
  void remove(std::string const& key) noexcept override { ::unlink((path_ / key).c_str()); }
  void clear(bool at_end) noexcept override {
    try {
      for (auto const& entry : std::filesystem::directory_iterator(path_))
        if (is_ours(entry.path().filename().native())) ::unlink(entry.path().c_str());
    } catch (std::filesystem::filesystem_error const&) {
      return;  // it is gone, or cannot be read: then its files stay
    }
    if (at_end) ::rmdir(path_.c_str());
  }
  [[nodiscard]] bool is_of_one_start() const override { return of_one_start_; }

 private:
  static constexpr std::string_view kind = "rendezvous note";
  static constexpr std::size_t most_bytes = std::size_t{1} << 20;

  // "writer", "0123456789abcdef.here.0", and what a process that was killed has half written.
  static bool is_ours(std::string_view file) {
    auto const digits = file.substr(0, file.find('.'));
    return file == "writer" || (file.starts_with("plait-") && file.ends_with(".partial")) ||
           (digits.size() == 16 && digits.size() < file.size() &&
            digits.find_first_not_of("0123456789abcdef") == std::string_view::npos);
  }
  /// False if there is nothing.
  [[nodiscard]] bool is_usable() const {
    struct stat found{};
    if (::lstat(path_.c_str(), &found) != 0) {
      if (errno == ENOENT) return false;
      name_.fail("cannot be looked for", errno);
    }
    if (!S_ISDIR(found.st_mode))
      name_.refuse(concat(
          {"is there and not a folder", (S_ISLNK(found.st_mode) ? " but a symbolic link" : ""),
           "; choose another path by PLAIT_RENDEZVOUS, in a folder that all processes see"}));
    if (found.st_uid != ::geteuid())
      name_.refuse(concat(
          {"belongs to user ", found.st_uid, ", not to user ", ::geteuid(), " of this process"}));
    if ((found.st_mode & 077u) != 0)
      name_.refuse(
          "may be entered by other users; plait makes the folder itself: choose a path that is not "
          "there yet by PLAIT_RENDEZVOUS");
    return true;
  }

  std::filesystem::path path_;
  file_name name_;
  bool of_one_start_;
};

}  // namespace plait::detail
