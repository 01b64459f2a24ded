// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "plait/core/namespaces.hpp"

// The arguments of queue operations other than pointers and lengths; plain data for all devices.
namespace plait::ext {

/// The position of this rank's block of an activation, of shape (positions, batch, columns), in the
/// whole activation. Dropout draws random numbers by global index, so that they do not depend on
/// how the activation is divided among ranks. An element's global index is (sample *
/// sequence_global + position) * width_global + column, where sample, position and column are
/// indices in the whole activation.
struct dropout_block {
  /// Number of samples in the block; row r is position r / batch_local.
  std::size_t batch_local = 1;
  std::size_t first_position = 0;
  std::size_t first_sample = 0;
  std::size_t first_column = 0;
  std::size_t sequence_global = 1;
  std::size_t width_global = 1;
};

/// The key of a dropout's random numbers. The step number is read through the pointer when the
/// operation runs, since a recorded graph repeats the operation with the same arguments.
struct dropout_key {
  std::uint64_t seed = 0;
  std::uint32_t site = 0;
  std::uint32_t const* step = nullptr;  ///< pointer to the device's memory
};

/// A range of elements of an arena that an optimizer updates with the same factors.
struct update_range {
  std::size_t offset = 0;
  std::size_t count = 0;
  double rate = 1;   ///< factor by which the learning rate is multiplied
  double decay = 1;  ///< factor by which the weight decay is multiplied, 0 if there is none
};

/// A block of an arena, in elements, and the index in a list at which the sum of the block's
/// squares is stored.
struct squares_range {
  std::size_t offset = 0;
  std::size_t count = 0;
  std::size_t index = 0;
};

/// The settings of AdamW that are equal in all steps.
struct adamw_constants {
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 1e-2;
};
/// The numbers of AdamW that change from step to step.
struct adamw_numbers {
  double learning_rate = 1e-3;
  double bias_correction1 = 1;  ///< 1 - beta1^t, with t = 1 at the first step
  double bias_correction2 = 1;  ///< 1 - beta2^t
};

/// The settings of stochastic gradient descent that are equal in all steps.
struct sgd_constants {
  double momentum = 0;
  double weight_decay = 0;
};
/// The numbers of stochastic gradient descent that change from step to step.
struct sgd_numbers {
  double learning_rate = 1e-2;
};

/// The operands of an optimizer's step on a block of a rank's parameters; all pointers are to the
/// device's memory.
///
/// Shapes: parameters, gradients, copies and each optimizer state (such as a moment of AdamW) have
///         `count` elements; an element has the same offset in each. A state begins `state_stride`
///         elements after the previous state. The ranges cover the block, in order.
template <class Parameter, class Gradient = Parameter, class Copy = Parameter,
          class State = Parameter>
struct optimizer_arena {
  Parameter* parameters = nullptr;
  Gradient const* gradients = nullptr;
  State* states = nullptr;
  /// If not null, receives the new parameters, converted to the type in which layers compute.
  Copy* copies = nullptr;
  std::size_t count = 0;
  std::size_t state_stride = 0;
  update_range const* ranges = nullptr;
  int range_count = 0;
  /// A factor for the gradients, for gradient clipping. If it is NaN, the step is skipped: the
  /// optimizer changes nothing.
  double const* gradient_scale = nullptr;
  /// The shape, if the block is one matrix that a matrix_optimizer updates as a whole, else 0. The
  /// matrix has the first rows * columns elements of the block; the block's padding follows.
  std::size_t rows = 0, columns = 0;
  void* scratch = nullptr;  ///< memory for the update of a matrix; see matrix_optimizer
};

}  // namespace plait::ext
