// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// A name of up to 32 characters that can be a template argument.
///
/// Cost: four words of 8 bytes. The characters are packed into scalar members, because a class with
///       an array member in the name of a CUDA kernel breaks the host stub that nvcc generates.
struct name {
  std::uint64_t word0 = 0, word1 = 0, word2 = 0, word3 = 0;

  static constexpr std::size_t capacity = 32;

  constexpr name() = default;
  /// Constructs a name from its packed words. nvcc writes a template argument in this form for the
  /// host compiler.
  constexpr name(std::uint64_t first, std::uint64_t second, std::uint64_t third,
                 std::uint64_t fourth)
      : word0(first), word1(second), word2(third), word3(fourth) {}

  /// Packs a string literal. A literal longer than `capacity` is a compile-time error.
  template <std::size_t Size>
  consteval name(char const (&text)[Size]) {  // NOLINT: implicit, so that "weight" is a name
    static_assert(Size - 1 <= capacity,
                  "plait::ext::name: the text has more than 32 characters; shorten it");
    std::array<std::uint64_t, 4> words{};
    for (std::size_t i = 0; i + 1 < Size && i < capacity; ++i)
      words[i / 8] |= std::uint64_t{static_cast<unsigned char>(text[i])} << (8 * (i % 8));
    word0 = words[0], word1 = words[1], word2 = words[2], word3 = words[3];
  }

  /// The character at `index`, or '\0' past the end.
  [[nodiscard]] constexpr char operator[](std::size_t index) const {
    std::uint64_t const words[4]{word0, word1, word2, word3};
    return index < capacity ? static_cast<char>((words[index / 8] >> (8 * (index % 8))) & 0xff)
                            : '\0';
  }

  [[nodiscard]] constexpr std::size_t size() const {
    std::size_t count = 0;
    while (count < capacity && (*this)[count] != '\0') ++count;
    return count;
  }

  [[nodiscard]] constexpr bool empty() const { return word0 == 0; }

  [[nodiscard]] [[gnu::cold]] constexpr std::string text() const {
    std::string out;
    for (std::size_t i = 0; i < size(); ++i) out.push_back((*this)[i]);
    return out;
  }

  friend constexpr bool operator==(name const&, name const&) = default;
};

/// A text of any length that can be a template argument and that compilers print readably in an
/// error message, such as "h.*.attn.weight"; a `name` would be printed as four numbers. Use it only
/// for template arguments of checks that have failed.
template <std::size_t Size>
struct printed_text {
  char characters[Size]{};  // has a null byte at its end, without which compilers print numbers
};
/// A list of texts as a template argument, for an error message.
template <printed_text... Texts>
struct printed_texts {};

/// The text that Make() returns, as a template argument for an error message. Make() returns a name
/// or a container of characters.
template <auto Make>
inline constexpr auto printed = [] {
  constexpr std::size_t size = Make().size();
  printed_text<size + 1> out;
  auto const text = Make();
  for (std::size_t i = 0; i != size; ++i) out.characters[i] = text[i];
  out.characters[size] = '\0';  // without this assignment, clang would not print it as a text
  return out;
}();

}  // namespace plait::ext
