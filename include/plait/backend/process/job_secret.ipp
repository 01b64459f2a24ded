// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/process/job_secret.hpp"

#include <cstddef>
#include <cstdlib>
#include <span>

#include "plait/core/concat.hpp"
#include "plait/core/file.hpp"
#include "plait/core/password_file.hpp"

namespace plait::detail {

PLAIT_DECL std::string read_job_secret(std::filesystem::path const& path) {
  constexpr std::size_t least = 32, most = 4096;
  open_file const file(path, "secret of the job (PLAIT_JOB_SECRET_FILE)");
  require_private(file);
  if (file.size() < least || file.size() > most)
    file.name().refuse(concat({"has ", file.size(), " bytes; it must have from ", least, " to ",
                               most, " random bytes, for example of head -c 32 /dev/urandom"}));
  std::string out(file.size(), '\0');
  file.read(std::as_writable_bytes(std::span(out)), 0);
  return out;
}

PLAIT_DECL std::string read_job_secret() {
  char const* const path = std::getenv("PLAIT_JOB_SECRET_FILE");
  return path == nullptr || *path == '\0' ? "" : read_job_secret(std::filesystem::path(path));
}

}  // namespace plait::detail
