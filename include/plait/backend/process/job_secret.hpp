// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "plait/core/header_only.hpp"

namespace plait::detail {

/// Returns the content of the file `path`, a secret that only the processes of one job know.
///
/// Errors: input_error if other users may read the file, if its owner is neither the user of this
///         process nor root, or if it has fewer than 32 bytes or more than 4096.
[[nodiscard]] [[gnu::cold]] std::string read_job_secret(std::filesystem::path const& path);

/// Returns the secret from the file that PLAIT_JOB_SECRET_FILE names; empty if the variable is
/// unset or empty.
[[nodiscard]] [[gnu::cold]] std::string read_job_secret();

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/process/job_secret.ipp"
#endif
