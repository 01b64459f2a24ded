// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/doctor/host_settings.hpp"
#include "plait/doctor/measured_job.hpp"

namespace plait::ext {

/// Returns settings as bytes that ranks can send to each other; settings_from_text reads them.
[[nodiscard]] [[gnu::cold]] std::string to_text(host_settings const& of);

/// Reads settings that another rank has sent.
///
/// Errors: input_error if the bytes are not settings, for example because the other rank runs
///         another version of plait.
[[nodiscard]] [[gnu::cold]] host_settings settings_from_text(std::string_view text);

/// Returns the use of the processors of several ranks as bytes that ranks can send to each other;
/// processor_use_from_text reads them.
[[nodiscard]] [[gnu::cold]] std::string to_text(std::vector<processor_use> const& of);

/// Reads the use of processors that another rank has sent.
///
/// Errors: as for settings_from_text.
[[nodiscard]] [[gnu::cold]] std::vector<processor_use> processor_use_from_text(
    std::string_view text);

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/doctor/settings_text.ipp"
#endif
