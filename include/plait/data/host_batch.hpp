// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace plait::detail {

/// The samples of one step of a data rank, in host memory, in the layout that a `Loader` writes.
template <class Loader>
class host_batch {
 public:
  /// True if the data set may number the documents of its samples.
  static constexpr bool has_positions =
      std::is_same_v<typename Loader::positions_type, std::vector<std::int32_t>>;

  host_batch() = default;
  /// Allocates memory for `places` samples.
  [[gnu::cold]] host_batch(Loader const& of, std::size_t places)
      : samples(places),
        inputs(places * of.inputs_per_sample()),
        targets(places * of.targets_per_sample()),
        weights(places * of.weights_per_sample()) {
    if constexpr (has_positions) positions.resize(places * of.positions_per_sample());
  }

  [[nodiscard]] typename Loader::buffers buffers() { return {inputs, targets, weights, positions}; }

  /// Returns the number of bytes that one sample takes in this memory.
  [[nodiscard]] static std::size_t bytes_per_sample(Loader const& of) {
    return of.inputs_per_sample() * sizeof(typename Loader::element) +
           of.targets_per_sample() * sizeof(typename Loader::target) +
           of.weights_per_sample() * sizeof(double) +
           of.positions_per_sample() * sizeof(std::int32_t) + sizeof(std::size_t);
  }

  std::vector<std::size_t> samples;  ///< the number of each sample in the data set
  std::vector<typename Loader::element> inputs;
  std::vector<typename Loader::target> targets;
  std::vector<double> weights;                ///< empty if the samples have no weights
  typename Loader::positions_type positions;  ///< empty if the samples have no documents
};

}  // namespace plait::detail
