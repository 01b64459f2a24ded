// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace plait::testing {

/// The numbers with which `check_layer` runs; the defaults suit most layers.
struct layer_options {
  /// The seed of inputs, parameters and random layers.
  std::uint64_t seed = 1;
  std::uint32_t step = 0;
  /// Tokens of a layer that takes them, or integer targets of a loss, for each of
  /// `checked_rows<L>`; empty: random numbers in [0, token_count).
  std::vector<std::int32_t> tokens{};
  /// The number of different tokens. 0: the rows of the layer's first matrix (of its smallest
  /// matrix if it takes tokens together with other values), or a loss's `classes`, or the width of
  /// its input.
  std::int32_t token_count = 0;
  /// The number of elements of the input and of each parameter that are compared with finite
  /// differences; at least 1.
  std::size_t differences = 24;
};

}  // namespace plait::testing
