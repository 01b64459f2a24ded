// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plait/core/header_only.hpp"

namespace plait::detail {

/// Whether the whole of `name` is as `pattern` says, in which a star stands for any characters, or
/// none. `parts`, if given, becomes what each star stands for: the first ones for as little as can
/// be.
[[gnu::cold]] bool matches(std::string_view pattern, std::string_view name,
                           std::vector<std::string_view>* parts = nullptr);

[[nodiscard]] [[gnu::cold]] bool matches_any(std::vector<std::string> const& patterns,
                                             std::string_view name);

/// `pattern` with a text for each of its stars, of which it has as many.
[[nodiscard]] [[gnu::cold]] std::string filled_in(std::string_view pattern,
                                                  std::vector<std::string_view> const& parts);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/core/name_pattern.ipp"
#endif
