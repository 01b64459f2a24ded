// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "plait/core/header_only.hpp"

namespace plait::detail {

/// The bytes of the file `path`, which only the processes of one job are to know.
///
/// Errors: input_error if others may read the file, if it belongs to another user than this one or
///         root, and if it has fewer than 32 bytes or more than 4096.
[[nodiscard]] [[gnu::cold]] std::string read_job_secret(std::filesystem::path const& path);

/// That of the file that PLAIT_JOB_SECRET_FILE names; empty if the variable is not there or empty.
[[nodiscard]] [[gnu::cold]] std::string read_job_secret();

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/process/job_secret.ipp"
#endif
