// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "plait/layer/value.hpp"
#include "plait/tensor/view.hpp"

namespace plait {

/// The samples of one step that one data rank works on, in the memory of its device: what a loader
/// gives and a trainer takes.
///
/// Shapes: for each microbatch, rows = sequence * samples, row = position * samples + sample.
///         Inputs and targets of microbatch m begin at m times their stride.
template <class Memory>
struct device_batch {
  using memory = Memory;

  std::size_t samples = 0;  ///< of one microbatch on this data rank
  std::size_t sequence = 1;
  int microbatches = 1;
  std::size_t first_sample = 0;  ///< index within the global batch of this data rank's first sample
  /// Not 0 if a recorded step can be repeated on it: batches of one number lie in the same memory
  /// and have the same first_sample. All ranks have the same number for a batch.
  std::uint64_t source = 0;
  std::byte* inputs = nullptr;
  std::size_t input_stride_bytes = 0;
  value_info input{};             ///< what the inputs are, per row
  std::size_t element_bytes = 0;  ///< of inputs that are features
  std::byte* targets = nullptr;
  std::size_t target_stride_bytes = 0;
  std::int32_t const* labels = nullptr;  ///< the targets in host memory, all microbatches together

  [[nodiscard]] std::size_t rows() const { return samples * sequence; }
  [[nodiscard]] std::byte* input_of(int microbatch) const {
    return inputs + input_stride_bytes * static_cast<std::size_t>(microbatch);
  }
  [[nodiscard]] std::byte* targets_of(int microbatch) const {
    return targets + target_stride_bytes * static_cast<std::size_t>(microbatch);
  }
};

/// A batch whose inputs are `Element`, std::int32_t for tokens: what `plait::batches` gives. The
/// trainer compares it with the job when it is compiled, and the rest when it runs.
template <class Memory, class Element>
struct batch_of : device_batch<Memory> {
  using element = Element;
};

namespace detail {

/// `Element`: of what the job takes.
template <class Batch, class Memory, class Element>
consteval void check_batch() {
  static_assert(
      requires { typename Batch::memory; },
      "trainer: a host buffer was given where a batch on the rank's device is needed; "
      "write `for (auto const& batch : plait::batches(dataset, plait::global_batch<N>{}, "
      "rank))` and give it that batch");
  if constexpr (requires { typename Batch::memory; })
    static_assert(std::is_same_v<typename Batch::memory, Memory>,
                  "trainer: the batch is in the memory of another device than this rank's; make it "
                  "by plait::batches(dataset, batch size, rank) with the rank of this trainer");
  if constexpr (requires { typename Batch::element; }) {
    using given = typename Batch::element;
    static_assert(std::is_integral_v<given> == std::is_integral_v<Element>,
                  "trainer: the batch has tokens and the model takes features, or the other way "
                  "round; take another data set, or put an embedding first");
    static_assert(
        std::is_integral_v<given> != std::is_integral_v<Element> || std::is_same_v<given, Element>,
        "trainer: the features of the batch have another type than the job computes "
        "with; write plait::batches<typename job::element>(dataset, batch size, rank)");
  }
}

}  // namespace detail

}  // namespace plait
