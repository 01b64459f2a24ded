// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/doctor/host_settings.hpp"

namespace plait::ext {

/// Returns settings as bytes that ranks can send to each other; settings_from_text reads them.
[[nodiscard]] [[gnu::cold]] std::string to_text(host_settings const& of);

/// Reads settings that another rank has sent.
///
/// Errors: input_error if the bytes are not settings, for example because the other rank runs
///         another version of plait.
[[nodiscard]] [[gnu::cold]] host_settings settings_from_text(std::string_view text);

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/doctor/settings_text.ipp"
#endif
