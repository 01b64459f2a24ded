// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/password_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <span>

#include "plait/core/concat.hpp"

namespace plait::detail {

PLAIT_DECL void require_private(open_file const& file) {
  struct stat found{};
  if (::fstat(file.descriptor(), &found) != 0) file.name().fail("cannot be read", errno);
  if (found.st_uid != ::geteuid() && found.st_uid != 0)
    file.name().refuse(concat(
        {"belongs to user ", found.st_uid, ", not to user ", ::geteuid(), " of this process"}));
  if ((found.st_mode & 077u) != 0)
    file.name().refuse(
        "may be used by other users; remove that right (chmod 600), and write a new password into "
        "the file, because they may have read this one");
}

PLAIT_DECL std::string read_password(std::filesystem::path const& path) {
  constexpr std::size_t most_bytes = 1024;
  open_file const file(path, "password file");
  require_private(file);
  if (file.size() > most_bytes + 1)
    file.name().refuse(concat({"is not a password: it has more than ", most_bytes, " bytes"}));
  std::string out(file.size(), '\0');
  file.read(std::as_writable_bytes(std::span(out)), 0);
  if (out.ends_with('\n')) out.pop_back();
  if (out.empty()) file.name().refuse("is empty; the password is its only line");
  auto const is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (std::any_of(out.begin(), out.end(), is_control))
    file.name().refuse(
        "is not a password: it has more than one line, or characters that cannot be printed");
  return out;
}

}  // namespace plait::detail
