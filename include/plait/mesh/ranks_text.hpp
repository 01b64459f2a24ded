// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// Ranks as words of a sentence, in the order given: of three or more that follow each other the
/// first and the last, "1-7", each other one by itself.
[[nodiscard]] std::vector<std::string> rank_ranges(std::vector<int> const& ranks);

/// "rank 3", "ranks 1-7, 9 and 12-31"
[[nodiscard]] [[gnu::cold]] std::string ranks_text(std::vector<int> const& ranks);

/// The members of a group: "{0,2,4}", and of more than eight "{0-31}".
[[nodiscard]] [[gnu::cold]] std::string ranks_in_braces(std::vector<int> const& ranks);

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/mesh/ranks_text.ipp"
#endif
