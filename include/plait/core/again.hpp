// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace plait {

/// The part of a unit (a layer, or one copy within a repeat) that is made again before its
/// backward, instead of being kept from its forward. Each has what those before it have.
enum class again : int {
  nothing,
  cheap,  ///< what layers without a matrix and without `units` make: norms, activations, dropout
  moves,  ///< and what is gathered from shards, which are kept
  all     ///< all that the backward reads: of a unit its output is kept, and nothing else
};

/// The word for it, such as "cheap".
[[nodiscard]] constexpr char const* to_string(again what) {
  constexpr char const* words[]{"nothing", "cheap", "moves", "all"};
  return words[static_cast<int>(what)];
}

}  // namespace plait
