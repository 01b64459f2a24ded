// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/gloo/gloo_store.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <span>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"

namespace plait::detail {

PLAIT_DECL std::string gloo_folder::name() const {
  return concat({"rendezvous folder ", path_in_quotes(path_)});
}

PLAIT_DECL std::string gloo_folder::what_to_check() const {
  return of_one_start_
             ? "do all ranks have the same TMPDIR? If not, choose a path by PLAIT_RENDEZVOUS"
             : "do all ranks see this path (PLAIT_RENDEZVOUS)?";
}

PLAIT_DECL void gloo_folder::make() {
  if (::mkdir(path_.c_str(), 0700) == 0) return;
  if (errno != EEXIST) name_.fail("cannot be made", errno);
  if (!is_usable()) name_.refuse("was removed while plait checked it");
}

PLAIT_DECL bool gloo_folder::put(std::string const& key, std::string_view value) {
  partial_file out(path_ / key, kind, 0600);
  out.write(std::as_bytes(std::span(value)), 0);
  return out.commit_if_new();
}

PLAIT_DECL std::optional<std::string> gloo_folder::get(std::string const& key) {
  auto const path = path_ / key;
  auto const is_there = [&] {
    struct stat found{};
    return is_usable() && (::lstat(path.c_str(), &found) == 0 || errno != ENOENT);
  };
  if (!is_there()) return std::nullopt;
  try {
    open_file const file(path, kind, open_file::links::refused);
    if (file.size() > most_bytes) file.name().refuse("was not written by plait: it is too long");
    std::string out(file.size(), '\0');
    file.read(std::as_writable_bytes(std::span(out)), 0);
    return out;
  } catch (input_error const&) {
    if (is_there()) throw;
    return std::nullopt;  // another process has removed the file
  }
}

PLAIT_DECL void gloo_folder::clear(bool at_end) noexcept {
  try {
    for (auto const& entry : std::filesystem::directory_iterator(path_))
      if (is_ours(entry.path().filename().native())) ::unlink(entry.path().c_str());
  } catch (std::filesystem::filesystem_error const&) {
    return;  // the folder is gone or cannot be read; its files stay
  }
  if (at_end) ::rmdir(path_.c_str());
}

PLAIT_DECL bool gloo_folder::is_ours(std::string_view file) {
  auto const digits = file.substr(0, file.find('.'));
  return file == "writer" || (file.starts_with("plait-") && file.ends_with(".partial")) ||
         (digits.size() == 16 && digits.size() < file.size() &&
          digits.find_first_not_of("0123456789abcdef") == std::string_view::npos);
}

PLAIT_DECL bool gloo_folder::is_usable() const {
  struct stat found{};
  if (::lstat(path_.c_str(), &found) != 0) {
    if (errno == ENOENT) return false;
    name_.fail("cannot be accessed", errno);
  }
  if (!S_ISDIR(found.st_mode))
    name_.refuse(concat(
        {"exists and is not a folder", (S_ISLNK(found.st_mode) ? " but a symbolic link" : ""),
         "; choose another path by PLAIT_RENDEZVOUS, in a folder that all processes see"}));
  if (found.st_uid != ::geteuid())
    name_.refuse(concat(
        {"belongs to user ", found.st_uid, ", not to user ", ::geteuid(), " of this process"}));
  if ((found.st_mode & 077u) != 0)
    name_.refuse(
        "may be entered by other users; plait makes the folder itself, so choose by "
        "PLAIT_RENDEZVOUS a path that does not exist yet");
  return true;
}

}  // namespace plait::detail
