// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "plait/core/namespaces.hpp"

// What the operations of a device's queue take besides pointers and lengths; plain data for all
// devices.
namespace plait::ext {

/// The place of a local block (positions, batch, columns) in the whole activation. An element's
/// global index is (sample * sequence_global + position) * width_global + column, all three global.
struct dropout_block {
  std::size_t batch_local = 1;  ///< samples in the block; row r is position r / batch_local of it
  std::size_t first_position = 0;
  std::size_t first_sample = 0;
  std::size_t first_column = 0;
  std::size_t sequence_global = 1;
  std::size_t width_global = 1;
};

/// The key of the random numbers that a dropout uses; the step is read when the operation runs.
struct dropout_key {
  std::uint64_t seed = 0;
  std::uint32_t site = 0;
  std::uint32_t const* step = nullptr;  ///< in the device's memory
};

/// Neighbours in an arena that an optimizer treats alike, in elements.
struct update_range {
  std::size_t offset = 0;
  std::size_t count = 0;
  double rate = 1;   ///< factor of the learning rate
  double decay = 1;  ///< factor of the weight decay, 0 where there is none
};

/// A block of an arena, in elements, and the place of its sum of squares in a list.
struct squares_range {
  std::size_t offset = 0;
  std::size_t count = 0;
  std::size_t index = 0;
};

/// The constants of AdamW and the arrays that it changes.
struct adamw_constants {
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 1e-2;
};
/// The numbers of one step of AdamW, which change from step to step.
struct adamw_numbers {
  double learning_rate = 1e-3;
  double bias_correction1 = 1;  ///< 1 - beta1^t, with t = 1 at the first step
  double bias_correction2 = 1;  ///< 1 - beta2^t
};

/// The same for stochastic gradient descent.
struct sgd_constants {
  double momentum = 0;
  double weight_decay = 0;
};
/// The numbers of one step of SGD, which change from step to step.
struct sgd_numbers {
  double learning_rate = 1e-2;
};

/// A block of the parameters of a rank as an optimizer updates it, all in the device's memory.
///
/// Shapes: parameters, gradients, copies and each of the states: `count` elements at equal offsets,
///         one state `state_stride` elements behind the other. The ranges cover the block, in
///         order.
template <class Parameter, class Gradient = Parameter, class Copy = Parameter>
struct optimizer_arena {
  Parameter* parameters = nullptr;
  Gradient const* gradients = nullptr;
  Parameter* states = nullptr;
  Copy* copies = nullptr;  ///< if not null, gets the new parameters in the type that layers see
  std::size_t count = 0;
  std::size_t state_stride = 0;
  update_range const* ranges = nullptr;
  int range_count = 0;
  /// Gradients are multiplied by it first (clipping); if it is not a number the step is not taken:
  /// the optimizer leaves everything as it is.
  double const* gradient_scale = nullptr;
};

}  // namespace plait::ext
