// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace plait {

/// The values that are recomputed before the backward of a unit (a layer, or one copy within a
/// repeat) instead of being kept since the unit's forward, as with torch.utils.checkpoint. Each
/// enumerator includes the values of the enumerators above it.
enum class granularity : int {
  nothing,
  /// Outputs of cheap layers: norms, activations, dropout and other layers that have neither a
  /// matrix nor `units`.
  cheap,
  moves,  ///< also values that were gathered from the ranks' shards; the shards themselves are kept
  all     ///< every value that the backward reads; only the output of the unit is kept
};

/// Returns the enumerator's name, such as "cheap".
[[nodiscard]] constexpr char const* to_string(granularity what) {
  constexpr char const* words[]{"nothing", "cheap", "moves", "all"};
  return words[static_cast<int>(what)];
}

}  // namespace plait
