// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/data/dataset.hpp"

namespace plait {

/// The target of a place without a sample; the losses' default for "does not count".
inline constexpr std::int32_t ignored_target = -100;

/// Copies samples of a data set into host buffers in the layout of activations, position-major:
/// sample s of a microbatch at position p is row p * batch + s. Features may be converted to
/// another type, `Element`, on the way.
///
/// A microbatch that gets fewer samples than it has places (a last partial batch) is filled up with
/// inputs 0 and targets `ignored_target`, so that all microbatches of a run have the same shape.
/// The loss divides by the targets that count, so the filling changes nothing.
///
/// Cost:    room for one sample, allocated by the constructor; filling allocates nothing.
/// Threads: one loader per thread; the data set is only read and must outlive its loaders.
template <class Data, class Element = void>
class loader {
  static_assert(
      token_dataset<Data> || feature_dataset<Data>,
      "loader<Data>: Data is no data set; it needs using concept_tag = dataset_tag, using "
      "element, size(), sequence_length(), inputs(), targets(), and width() if element is "
      "a floating-point type, see plait/data/dataset.hpp");

  static_assert(feature_dataset<Data> || std::is_void_v<Element>,
                "batches<Element>(data, ...): the data set has tokens, which are std::int32_t in "
                "every precision; write batches(data, ...)");

 public:
  using element = std::conditional_t<std::is_void_v<Element>, typename Data::element, Element>;

  /// Errors: input_error if a sample has no elements.
  explicit loader(Data const& data)
      : data_(&data),
        sequence_(data.sequence_length()),
        width_(width_of(data)),
        inputs_(sequence_ * width_),
        targets_(sequence_) {
    if (sequence_ == 0 || width_ == 0)
      throw input_error("loader: samples have the shape (" + std::to_string(sequence_) + ", " +
                        std::to_string(width_) + "); both must be at least 1");
  }
  explicit loader(Data const&&) = delete;

  [[nodiscard]] Data const& data() const { return *data_; }

  /// Elements of `inputs` per place of a batch.
  [[nodiscard]] std::size_t inputs_per_sample() const { return inputs_.size(); }
  [[nodiscard]] std::size_t targets_per_sample() const { return targets_.size(); }

  /// Fills one microbatch whose number of places, `batch`, follows from the sizes of the buffers.
  ///
  /// Shapes: samples (at most batch), inputs (sequence, batch, width), targets (sequence, batch);
  ///         width is 1 for tokens
  /// Errors: size_mismatch if these do not fit together, before anything is written.
  void fill_microbatch(std::span<std::size_t const> samples, std::span<element> inputs,
                       std::span<std::int32_t> targets) {
    std::size_t const batch = targets.size() / sequence_;
    if (targets.size() != batch * sequence_ || inputs.size() != targets.size() * width_ ||
        samples.size() > batch)
      throw size_mismatch("loader: " + std::to_string(samples.size()) + " samples of (" +
                          std::to_string(sequence_) + ", " + std::to_string(width_) +
                          ") do not fit into " + std::to_string(inputs.size()) + " inputs and " +
                          std::to_string(targets.size()) + " targets");
    for (std::size_t place = 0; place < batch; ++place) {
      if (place < samples.size()) {
        data_->inputs(samples[place], std::span(inputs_));                  // (sequence, width)
        data_->targets(samples[place], std::span<std::int32_t>(targets_));  // (sequence)
      } else if (place == samples.size()) {
        std::ranges::fill(inputs_, typename Data::element{0});
        std::ranges::fill(targets_, ignored_target);
      }
      for (std::size_t position = 0; position < sequence_; ++position) {
        std::size_t const row = position * batch + place;
        std::transform(inputs_.data() + position * width_, inputs_.data() + (position + 1) * width_,
                       inputs.data() + row * width_,
                       [](auto value) { return static_cast<element>(value); });
        targets[row] = targets_[position];
      }
    }
  }

  /// Fills the microbatches of one step, one after another; microbatch m gets the samples from
  /// m * batch on.
  ///
  /// Shapes: samples (at most microbatches * batch), inputs (microbatches, sequence, batch, width),
  ///         targets (microbatches, sequence, batch)
  /// Errors: size_mismatch as for fill_microbatch.
  void fill(std::span<std::size_t const> samples, int microbatches, std::span<element> inputs,
            std::span<std::int32_t> targets) {
    auto const count = static_cast<std::size_t>(std::max(microbatches, 1));
    std::size_t const batch = targets.size() / sequence_ / count;
    if (microbatches < 1 || targets.size() != count * batch * sequence_ ||
        inputs.size() != targets.size() * width_ || samples.size() > count * batch)
      throw size_mismatch("loader: " + std::to_string(samples.size()) + " samples of (" +
                          std::to_string(sequence_) + ", " + std::to_string(width_) +
                          ") do not fit into " + std::to_string(microbatches) +
                          " microbatches with " + std::to_string(inputs.size()) + " inputs and " +
                          std::to_string(targets.size()) + " targets in all");
    for (std::size_t m = 0; m < count; ++m) {
      std::size_t const first = std::min(m * batch, samples.size());
      std::size_t const here = std::min(batch, samples.size() - first);
      fill_microbatch(samples.subspan(first, here),
                      inputs.subspan(m * batch * inputs_.size(), batch * inputs_.size()),
                      targets.subspan(m * batch * sequence_, batch * sequence_));
    }
  }

 private:
  static std::size_t width_of(Data const& data) {
    if constexpr (feature_dataset<Data>) return data.width();
    else return 1;
  }

  Data const* data_;
  std::size_t sequence_;
  std::size_t width_;
  std::vector<typename Data::element> inputs_;  // (sequence, width) of one sample
  std::vector<std::int32_t> targets_;           // (sequence) of one sample
};

}  // namespace plait
