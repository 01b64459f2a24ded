// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "plait/core/macros.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/mesh/axis.hpp"

namespace plait {

/// The address, in the device's memory, of the number to which a layer adds its term of the loss,
/// and the weights of the term.
struct loss_sum {
  double* data = nullptr;  ///< null: the layer adds no term
  /// Weight of the term, divided by the count of its targets in the global batch.
  double const* scale = nullptr;
  double const* weights = nullptr;  ///< a weight for each row of the microbatch; null: all are 1

  /// The number of sample slots of the microbatch, of which only the first `present` contain a
  /// sample. The rows of empty slots do not count. 0: all slots contain a sample.
  std::size_t samples = 0;
  std::size_t present = 0;
  std::size_t first_row = 0;  ///< first row of this rank's block in the microbatch
};

/// The factor by which a layer multiplies the gradient of its term of the loss, in the device's
/// memory.
///
/// Example (tests/reference/names_in_use_test.cpp loss_seed):
///     struct differentiate {
///       static constexpr bool takes_row = true;
///       plait::loss_seed seed;  // ops.loss_seed(): 1 / the labels of the global batch
///       template <class X>
///       PLAIT_HOST_DEVICE void operator()(std::size_t row, std::size_t, X const* x,
///                                         auto const* target, X* dx) const {
///         *dx = static_cast<X>(seed.at(row) * (double(*x) - double(*target)));
///       }
///     };
struct loss_seed {
  double const* scale = nullptr;    ///< gradient of the job's loss with respect to the layer's sum
  double const* weights = nullptr;  ///< a weight for each row; null: all are 1
  std::size_t samples = 0;          ///< number of sample slots, as in loss_sum
  std::size_t present = 0;

  /// Returns the factor for the gradient of one row. Only kernels call this function, because
  /// `scale` points to the device's memory.
  [[nodiscard]] PLAIT_HOST_DEVICE double at(std::size_t row) const {
    if (samples != 0 && row % samples >= present) return 0;
    return weights == nullptr ? *scale : *scale * weights[row];
  }
};

}  // namespace plait

namespace plait::ext {

/// Returns the factor by which a layer multiplies the gradients of the terms that it adds to the
/// loss `of`.
constexpr loss_seed seed_of(loss_sum const& of) {
  return {of.scale, of.weights == nullptr ? nullptr : of.weights + of.first_row, of.samples,
          of.present};
}

/// Facts that may influence the result of a layer's body in addition to its operands. From them a
/// body can compute global indices, so that its result does not depend on the plan. For example,
/// dropout draws its random numbers from `seed`, `step`, `site` and the global index of an element.
struct layer_context {
  std::uint64_t seed = 0;
  std::uint32_t const* step = nullptr;  ///< number of the step, in the device's memory
  std::uint32_t site = 0;               ///< number of this copy of this layer, unique in the model
  int copy = 0;                         ///< number of the copy within a repeat
  int microbatch = 0;
  bool training = true;
  std::size_t batch = 1;         ///< number of samples of the microbatch on this data rank
  std::size_t first_sample = 0;  ///< global index of the first of these samples
  std::size_t missing = 0;       ///< number of empty sample slots at the end of the microbatch
  std::size_t all_samples = 0;   ///< number of samples of the global batch; 0: `present()`
  /// True if forward uses running statistics: in evaluation, or if the layer is frozen.
  bool reads_buffers = false;
  bool recomputes = false;  ///< true if forward recomputes activations that were not kept

  /// For layers that sum over samples: the number of samples of the microbatch on all ranks; 0:
  /// only this rank has samples of it. `sample_axes` are the mesh axes along which ranks have
  /// different samples.
  std::size_t samples_on_all_ranks = 0;
  axis_set sample_axes{};
  std::size_t sequence = 1;  ///< number of positions of a sample, on all tensor ranks together
  /// The position of each row of the microbatch within its document, (sequence, batch), in the
  /// device's memory; null: each sample is one document. See ops.document_positions.
  std::int32_t const* document_positions = nullptr;
  int tensor_rank = 0;
  int tensor_ranks = 1;
  loss_sum loss{};  ///< the address to which a layer adds its term of the loss

  /// Returns the number of samples of the microbatch on this data rank.
  [[nodiscard]] std::size_t present() const { return batch - missing; }
  /// Returns the number of samples of the microbatch on all data ranks.
  [[nodiscard]] std::size_t present_on_all_ranks() const {
    return samples_on_all_ranks != 0 ? samples_on_all_ranks : present();
  }
  /// Returns the weight of one sample in a mean over the global batch.
  [[nodiscard]] double sample_share() const {
    return 1.0 / static_cast<double>(all_samples != 0 ? all_samples : present());
  }
};

}  // namespace plait::ext
