// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/quote.hpp"

#include <algorithm>

#include "plait/core/concat.hpp"

namespace plait::detail {

// Returns the first code point of a text that is not empty.
PLAIT_DECL code_point first_code_point(std::string_view text) {
  auto const lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {lead, 1};
  std::size_t const bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  std::uint32_t value = lead & (0x7fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    auto const next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0u) != 0x80u) return {};
    value = value << 6 | (next & 0x3fu);
  }
  bool const surrogate = value >= 0xd800 && value < 0xe000;
  constexpr std::uint32_t least[]{0, 0, 0x80, 0x800, 0x10000};
  if (value < least[bytes] || value > 0x10ffff || surrogate) return {};
  return {value, bytes};
}

PLAIT_DECL std::string escaped(std::string_view text) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out;
  while (!text.empty()) {
    auto const [value, bytes] = first_code_point(text);
    bool const control = bytes == 0 || value < 0x20 || (value >= 0x7f && value < 0xa0) ||
                         (value >= 0x200b && value <= 0x200f) ||
                         (value >= 0x2028 && value <= 0x202e) ||
                         (value >= 0x2060 && value <= 0x206f) || value == 0xfeff;
    std::size_t const taken = bytes == 0 ? 1 : bytes;
    for (char const c : text.substr(0, taken)) {
      auto const byte = static_cast<unsigned char>(c);
      if (c == '\\') out += "\\\\";
      else if (!control) out += c;
      else if (c == '\n') out += "\\n";
      else out += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    }
    text.remove_prefix(taken);
  }
  return out;
}

PLAIT_DECL std::string sentence_of_another(std::string_view text) {
  constexpr std::size_t most = 1000;
  bool const is_cut = text.size() > most;
  text = text.substr(0, most);
  std::string out;
  for (;;) {
    auto const end = text.find('\\');
    out += escaped(text.substr(0, end));
    if (end == std::string_view::npos) return is_cut ? concat({out, "..."}) : out;
    out += '\\';
    text.remove_prefix(end + 1);
  }
}

PLAIT_DECL std::string in_quotes(std::string_view text) {
  std::size_t end = std::min<std::size_t>(text.size(), 80);
  bool const is_cut = end < text.size();
  while (is_cut && end > 76 && (static_cast<unsigned char>(text[end]) & 0xc0u) == 0x80u) --end;
  // The text is appended to `out`, because g++ 12 warns about "'" + std::string if that expression
  // is inlined.
  std::string out = "'";
  out += escaped(text.substr(0, end));
  out += is_cut ? "...'" : "'";
  return out;
}

PLAIT_DECL std::string path_in_quotes(std::string const& path) {
  std::string out = "'";
  out += escaped(path);
  out += "'";
  return out;
}

}  // namespace plait::detail
