// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "plait/core/macros.hpp"

namespace plait {

/// Where in the job a layer's body is being run: what it must know besides its operands so that
/// the result depends on global indices only.
struct layer_context {
  std::uint64_t seed = 0;
  std::uint32_t const* step = nullptr;  ///< number of the step, in the device's memory
  std::uint32_t site = 0;  ///< a number of this copy of this layer, unique in the model
  int copy = 0;            ///< which copy within a repeat
  int microbatch = 0;
  bool training = true;
  std::size_t batch = 1;         ///< samples of the microbatch on this data rank
  std::size_t first_sample = 0;  ///< global index of the first of them
  std::size_t sequence = 1;      ///< positions, of all ranks of the tensor axis
  int tensor_rank = 0;
  int tensor_ranks = 1;
  double const* loss_scale = nullptr;  ///< 1 / (labels of the global batch), in the device's memory
};

/// Where a loss layer adds its sum, in the device's memory.
struct loss_sum {
  double* data = nullptr;
  double const* weights = nullptr;  ///< of each row of the microbatch; null: all 1
};

/// What the gradient of a loss layer is multiplied by, in the device's memory.
struct loss_seed {
  double const* scale = nullptr;    ///< the gradient of the job's loss by the sum of the layer
  double const* weights = nullptr;  ///< of each row of the microbatch; null: all 1

  /// What the gradient of a row is multiplied by; for operations, while they run.
  [[nodiscard]] PLAIT_HOST_DEVICE double at(std::size_t row) const {
    return weights == nullptr ? *scale : *scale * weights[row];
  }
};

}  // namespace plait
