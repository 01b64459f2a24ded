// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/process/rendezvous_file.hpp"
#include "plait/core/quote.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace plait::ext {

PLAIT_DECL void rendezvous_file::write(std::span<std::byte const> bytes) const {
  if (is_there()) refuse_old();
  detail::partial_file out(path_, kind, 0600);
  auto const begin = first_lines();
  out.write(std::as_bytes(std::span(begin)), 0);
  out.write(bytes, begin.size());
  if (!out.commit_if_new()) refuse_old();
}

PLAIT_DECL void rendezvous_file::remove() const noexcept {
  std::error_code unused;
  std::filesystem::remove(path_, unused);
}

PLAIT_DECL void rendezvous_file::refuse_old() const {
  name().refuse(
      "exists already: another job uses the file or has left it; choose another path by "
      "PLAIT_RENDEZVOUS, or delete the file");
}

PLAIT_DECL bool rendezvous_file::is_there() const {
  struct stat found{};
  return ::lstat(path_.c_str(), &found) == 0 || errno != ENOENT;
}

PLAIT_DECL std::vector<std::byte> rendezvous_file::checked(detail::open_file const& file,
                                                           std::size_t size) const {
  if (file.owner() != ::geteuid())
    file.name().refuse(concat(
        {"belongs to user ", file.owner(), ", not to user ", ::geteuid(), " of this process"}));
  auto const begin = first_lines();
  // Reads up to 1000 bytes more than expected: the name of another job may be longer than this
  // job's name, and the error message quotes it.
  std::string found(std::min<std::size_t>(file.size(), begin.size() + size + 1000), '\0');
  file.read(std::as_writable_bytes(std::span(found)), 0);
  if (!found.starts_with(first_line))
    file.name().refuse(concat({"is not a rendezvous file: it does not begin with '",
                               std::string(first_line.substr(0, first_line.size() - 1)), "'"}));
  if (!found.starts_with(begin)) {
    auto const rest = std::string_view(found).substr(first_line.size());
    file.name().refuse(
        concat({"is of job ", detail::in_quotes(rest.substr(0, rest.find('\n'))),
                ", but this process is of job ", detail::in_quotes(job_),
                "; delete the file that was left, or choose another path by PLAIT_RENDEZVOUS"}));
  }
  if (file.size() - begin.size() != size)
    file.name().refuse(concat({"has ", file.size() - begin.size(), " bytes, not ", size,
                               "; it was not written for this job"}));
  auto const bytes = std::as_bytes(std::span(found)).subspan(begin.size(), size);
  return {bytes.begin(), bytes.end()};
}

}  // namespace plait::ext
