// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "plait/core/header_only.hpp"

namespace plait::detail {

struct code_point {
  std::uint32_t value = 0;
  std::size_t bytes = 0;  ///< 0: the bytes are not UTF-8
};

/// Returns a text from outside for use in a message. Characters that could move a terminal's
/// cursor, end the line, or hide and reorder characters (control characters, line separators,
/// direction marks, characters of zero width) and bytes that are not UTF-8 are written as escapes.
[[gnu::cold]] std::string escaped(std::string_view text);

/// Returns a sentence that another process wrote for use in a message: escaped, except for parts
/// which that process has already escaped, and shortened to about 1000 bytes.
std::string sentence_of_another(std::string_view text);

/// Returns a text from outside in quotes for a message: escaped, and shortened to about 80 bytes.
std::string in_quotes(std::string_view text);

/// Returns a path in quotes for a message: escaped and never shortened, since its end says most.
std::string path_in_quotes(std::string const& path);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/core/quote.ipp"
#endif
