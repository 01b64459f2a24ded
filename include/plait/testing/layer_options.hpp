// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace plait::testing {

/// The settings with which `check_layer` runs; the defaults suit most layers.
struct layer_options {
  /// The seed of inputs, parameters and random layers.
  std::uint64_t seed = 1;
  std::uint32_t step = 0;
  /// The tokens of a layer that takes tokens, or the integer targets of a loss, one for each of the
  /// `checked_rows<L>` rows. If the list is empty, they are random numbers in [0, token_count).
  std::vector<std::int32_t> tokens{};
  /// The number of different tokens. If it is 0, it is taken from the layer: the number of rows of
  /// its first matrix (of its smallest matrix if the layer takes tokens together with other
  /// values), or the `classes` of a loss, or the width of the input.
  std::int32_t token_count = 0;
  /// The number of elements of the input, and of each parameter, whose gradients are compared with
  /// finite differences; at least 1.
  std::size_t differences = 24;
};

}  // namespace plait::testing
