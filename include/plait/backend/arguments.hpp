// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "plait/core/namespaces.hpp"

// The arguments of queue operations other than pointers and lengths; plain data for all devices.
namespace plait::ext {

/// The position of a local block (positions, batch, columns) in the whole activation. An element's
/// global index is (sample * sequence_global + position) * width_global + column, all three global.
struct dropout_block {
  std::size_t batch_local = 1;  ///< samples in the block; row r has position r / batch_local of it
  std::size_t first_position = 0;
  std::size_t first_sample = 0;
  std::size_t first_column = 0;
  std::size_t sequence_global = 1;
  std::size_t width_global = 1;
};

/// The key of the random numbers of a dropout; the step is read when the operation runs.
struct dropout_key {
  std::uint64_t seed = 0;
  std::uint32_t site = 0;
  std::uint32_t const* step = nullptr;  ///< in the device's memory
};

/// Consecutive elements of an arena that an optimizer updates with the same factors.
struct update_range {
  std::size_t offset = 0;
  std::size_t count = 0;
  double rate = 1;   ///< factor of the learning rate
  double decay = 1;  ///< factor of the weight decay, 0 if there is none
};

/// A block of an arena, in elements, and the index of its sum of squares in a list.
struct squares_range {
  std::size_t offset = 0;
  std::size_t count = 0;
  std::size_t index = 0;
};

/// The constants of AdamW.
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

/// The constants of stochastic gradient descent.
struct sgd_constants {
  double momentum = 0;
  double weight_decay = 0;
};
/// The numbers of one step of SGD, which change from step to step.
struct sgd_numbers {
  double learning_rate = 1e-2;
};

/// A block of a rank's parameters for an optimizer, all in the device's memory.
///
/// Shapes: parameters, gradients, copies and each of the states: `count` elements at equal offsets;
///         consecutive states are `state_stride` elements apart. The ranges cover the block, in
///         order.
template <class Parameter, class Gradient = Parameter, class Copy = Parameter>
struct optimizer_arena {
  Parameter* parameters = nullptr;
  Gradient const* gradients = nullptr;
  Parameter* states = nullptr;
  Copy* copies = nullptr;  ///< if not null, receives the new parameters in the type that layers see
  std::size_t count = 0;
  std::size_t state_stride = 0;
  update_range const* ranges = nullptr;
  int range_count = 0;
  /// A factor for the gradients (clipping). If it is NaN, the step is skipped: the optimizer
  /// changes nothing.
  double const* gradient_scale = nullptr;
};

}  // namespace plait::ext
