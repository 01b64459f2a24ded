// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plait/core/header_only.hpp"

namespace plait::detail {

/// Returns true if the whole `name` matches `pattern`, in which a star matches any text, even the
/// empty text. If `parts` is not null, it receives the text that each star matched; the first stars
/// match as few characters as possible.
[[gnu::cold]] bool matches(std::string_view pattern, std::string_view name,
                           std::vector<std::string_view>* parts = nullptr);

[[nodiscard]] [[gnu::cold]] bool matches_any(std::vector<std::string> const& patterns,
                                             std::string_view name);

/// Returns `pattern` with its stars replaced by `parts`, one for each star.
[[nodiscard]] [[gnu::cold]] std::string filled_in(std::string_view pattern,
                                                  std::vector<std::string_view> const& parts);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/core/name_pattern.ipp"
#endif
