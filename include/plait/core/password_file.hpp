// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "plait/core/error.hpp"
#include "plait/core/file.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// Refuses a file with a secret if users other than this user and root may read it.
///
/// Errors: input_error that names the kind of file and its path.
void require_private(open_file const& file);

/// Returns the password in a file, which must be its first and only line.
///
/// Errors: input_error that names the file; the text of the error never contains anything of the
///         file's content.
[[nodiscard]] std::string read_password(std::filesystem::path const& path);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/core/password_file.ipp"
#endif
