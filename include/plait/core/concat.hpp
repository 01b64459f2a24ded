// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>

#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// A part of a text: characters, or an integer that is written in decimal digits. It refers to the
/// characters and does not copy them, so use it only within one expression.
class text_part {
 public:
  constexpr text_part(char const* of) : kind_(is::characters), characters_(of) {}
  constexpr text_part(std::string const& of) : kind_(is::string), string_(&of) {}
  constexpr text_part(std::string_view of)
      : kind_(is::view), size_(of.size()), characters_(of.data()) {}
  constexpr text_part(char of) : kind_(is::character), character_(of) {}
  template <std::unsigned_integral T>
  constexpr text_part(T of) : kind_(is::integer), integer_(of) {}
  template <std::signed_integral T>
  constexpr text_part(T of)
      : kind_(of < 0 ? is::negative : is::integer),
        integer_(of < 0 ? 0ULL - static_cast<unsigned long long>(of)
                        : static_cast<unsigned long long>(of)) {}
  text_part(bool) = delete;

  [[gnu::cold]] constexpr void append_to(std::string& out) const {
    switch (kind_) {
      case is::characters: out += characters_; break;
      case is::string: out += *string_; break;
      case is::view: out.append(characters_, size_); break;
      case is::character: out += character_; break;
      case is::negative: out += '-'; [[fallthrough]];
      case is::integer: append_digits(out); break;
    }
  }

 private:
  enum class is { characters, string, view, character, integer, negative };

  [[gnu::cold]] constexpr void append_digits(std::string& out) const {
    char digits[std::numeric_limits<unsigned long long>::digits10 + 1] = {};
    std::size_t first = sizeof digits;
    auto rest = integer_;
    do digits[--first] = char('0' + rest % 10);
    while ((rest /= 10) > 0);
    out.append(digits + first, sizeof digits - first);
  }

  is kind_;
  std::size_t size_;  // set only if the part refers to characters
  union {
    char const* characters_;
    std::string const* string_;
    unsigned long long integer_;
    char character_;
  };
};

/// Returns the parts joined into one string.
///
/// Example (tests/core/concat_test.cpp parts):
///     auto const sentence = plait::ext::concat({"rank ", 3, " of ", world_size, ": ", why});
///
/// Cost:    one call for the whole sentence, because a chain of `+` takes compile time
///          (docs/benchmarks.md).
/// Errors:  std::bad_alloc.
/// Threads: any.
[[gnu::cold]] [[gnu::noinline]] constexpr std::string concat(
    std::initializer_list<text_part> parts) {
  std::string out;
  for (auto const& part : parts) part.append_to(out);
  return out;
}

}  // namespace plait::ext
