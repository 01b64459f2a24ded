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
  std::size_t bytes = 0;  ///< length of the code point's UTF-8 form; 0: the bytes are not UTF-8
};

/// Returns a text from outside the program in a form that is safe in a message. Characters that
/// could move a terminal's cursor, end the line, or hide and reorder characters (control
/// characters, line separators, direction marks, characters of zero width) and bytes that are not
/// UTF-8 are written as escapes.
[[gnu::cold]] std::string escaped(std::string_view text);

/// Returns an error text that another process has sent, for use in a message. It is escaped, except
/// for parts that the other process has already escaped, and shortened to about 1000 bytes.
std::string sentence_of_another(std::string_view text);

/// Returns a text from outside the program, in quotes, for use in a message. It is escaped and
/// shortened to about 80 bytes.
std::string in_quotes(std::string_view text);

/// Returns a path, in quotes, for use in a message. It is escaped and never shortened, since the
/// last part of a path identifies the file.
std::string path_in_quotes(std::string const& path);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/core/quote.ipp"
#endif
