// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "plait/core/macros.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/mesh/axis.hpp"

namespace plait {

/// The place in the device's memory where a layer adds its term of the loss.
struct loss_sum {
  double* data = nullptr;           ///< null: nobody wants it
  double const* scale = nullptr;    ///< the term's weight / (what it counts in the global batch)
  double const* weights = nullptr;  ///< of each row of the microbatch; null: all 1
  /// Not 0 where places of the microbatch have no sample: its places, of which the first `present`
  /// have one. Rows without a sample do not count.
  std::size_t samples = 0;
  std::size_t present = 0;
  std::size_t first_row = 0;  ///< of the block of the microbatch that this rank's body works on
};

/// The factor of the gradient of a term of the loss, in the device's memory.
///
/// Example (tests/reference/names_in_use_test.cpp loss_seed):
///     struct differentiate {
///       static constexpr bool takes_row = true;
///       plait::loss_seed seed;  // of ops.loss_seed(): 1 / the labels of the global batch
///       template <class X>
///       PLAIT_HOST_DEVICE void operator()(std::size_t row, std::size_t, X const* x,
///                                         auto const* target, X* dx) const {
///         *dx = static_cast<X>(seed.at(row) * (double(*x) - double(*target)));
///       }
///     };
struct loss_seed {
  double const* scale = nullptr;    ///< the gradient of the job's loss by the layer's sum
  double const* weights = nullptr;  ///< of each row; null: all 1
  std::size_t samples = 0;          ///< as in loss_sum
  std::size_t present = 0;

  /// What the gradient of a row is multiplied by; for operations, while they run.
  [[nodiscard]] PLAIT_HOST_DEVICE double at(std::size_t row) const {
    if (samples != 0 && row % samples >= present) return 0;
    return weights == nullptr ? *scale : *scale * weights[row];
  }
};

}  // namespace plait

namespace plait::ext {

/// The seed that belongs to a sum.
constexpr loss_seed seed_of(loss_sum const& of) {
  return {of.scale, of.weights == nullptr ? nullptr : of.weights + of.first_row, of.samples,
          of.present};
}

/// The context in which a layer's body runs: what it must know besides its operands so that the
/// result depends on global indices only.
struct layer_context {
  std::uint64_t seed = 0;
  std::uint32_t const* step = nullptr;  ///< number of the step, in the device's memory
  std::uint32_t site = 0;  ///< a number of this copy of this layer, unique in the model
  int copy = 0;            ///< which copy within a repeat
  int microbatch = 0;
  bool training = true;
  std::size_t batch = 1;         ///< samples of the microbatch on this data rank
  std::size_t first_sample = 0;  ///< global index of the first of them
  std::size_t missing = 0;       ///< of its places, the last ones, that have no sample
  std::size_t all_samples = 0;   ///< of the global batch; 0: those of the microbatch
  bool reads_buffers = false;  ///< in evaluation, and in a frozen layer: forward reads its buffers
  bool runs_again = false;     ///< the forward makes again what has not been kept
  /// Of layers that sum over samples: those of the microbatch on all ranks, 0 if there are none
  /// elsewhere, and the axes along which these ranks stand.
  std::size_t samples_on_all_ranks = 0;
  axis_set sample_axes{};
  std::size_t sequence = 1;  ///< positions, of all ranks of the tensor axis
  int tensor_rank = 0;
  int tensor_ranks = 1;
  loss_sum loss{};  ///< of a layer that has a term in the loss

  /// Samples of the microbatch on this data rank.
  [[nodiscard]] std::size_t present() const { return batch - missing; }
  /// Those on all of them.
  [[nodiscard]] std::size_t present_on_all_ranks() const {
    return samples_on_all_ranks != 0 ? samples_on_all_ranks : present();
  }
  /// The share of a sample in the global batch.
  [[nodiscard]] double sample_share() const {
    return 1.0 / static_cast<double>(all_samples != 0 ? all_samples : present());
  }
};

}  // namespace plait::ext
