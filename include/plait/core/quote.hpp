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
  std::size_t bytes = 0;  ///< 0: the bytes are no UTF-8
};

/// A text from outside as part of a message: what could move a terminal's cursor, end the line or
/// hide and reorder characters (control characters, separators of lines, directions of writing,
/// characters without width) and bytes that are no UTF-8 are written as escapes.
[[gnu::cold]] std::string escaped(std::string_view text);

/// A sentence that another process has left, as part of a message: escaped, but for what that
/// process has escaped already, and shortened to about 1000 bytes.
std::string sentence_of_another(std::string_view text);

/// A text from outside as part of a message: escaped, and shortened to about 80 bytes.
std::string in_quotes(std::string_view text);

/// A path as part of a message: escaped and never shortened, since its end says most.
std::string path_in_quotes(std::string const& path);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/core/quote.ipp"
#endif
