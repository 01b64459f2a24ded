// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// Returns ranks as words of a sentence, in the order given: three or more consecutive ranks become
/// a range such as "1-7", each other rank is one word.
[[nodiscard]] std::vector<std::string> rank_ranges(std::vector<int> const& ranks);

/// Returns text such as "rank 3" or "ranks 1-7, 9 and 12-31".
[[nodiscard]] [[gnu::cold]] std::string ranks_text(std::vector<int> const& ranks);

/// Returns the members of a group: "{0,2,4}", with ranges if there are more than eight: "{0-31}".
[[nodiscard]] [[gnu::cold]] std::string ranks_in_braces(std::vector<int> const& ranks);

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/mesh/ranks_text.ipp"
#endif
