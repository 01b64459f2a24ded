// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/core/hash.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/precision.hpp"
#include "plait/data/dataset.hpp"
#include "plait/data/packed_documents.hpp"
#include "plait/layer/value.hpp"

namespace plait::ext {

/// Copies samples of a data set into host buffers in the layout of activations, position-major:
/// sample s of a microbatch at position p is row p * batch + s. Features are converted to
/// `Element`, if it is not void. Real targets are converted to the type in which a job with these
/// elements computes sums.
///
/// A microbatch has a fixed number of places, one for each sample, so that all microbatches of a
/// run have the same shape. In a partial last batch, places without a sample are filled with inputs
/// 0, targets 0 (ignored_target for integers) and weights 0. Trainers ignore these rows in the loss
/// and in its gradient.
///
/// Cost:    the constructor allocates memory for one sample and for the data set's scratch; fill
///          and fill_place allocate nothing.
/// Threads: one loader per thread; the data set is only read and must outlive its loaders.
template <class Data, class Element = void>
class loader {
  static_assert(token_dataset<Data> || feature_dataset<Data>,
                "loader<Data>: Data is not a data set; it must define concept_tag = dataset_tag, "
                "element, size(), sequence_length(), inputs(), targets(), and width() if element "
                "is a floating-point type; see plait/data/dataset.hpp");
  static constexpr bool has_real_targets = std::floating_point<target_of<Data>>;
  static_assert(token_dataset<Data> || !may_have_documents<Data>,
                "loader<Data>: a data set of features has documents(), but only samples of tokens "
                "consist of documents; remove documents(), or make the inputs tokens");

  static_assert(feature_dataset<Data> || std::is_void_v<Element> || has_real_targets,
                "batches<Element>(data, ...): the data set has tokens, which are std::int32_t "
                "in jobs of every precision; write batches(data, ...) without Element");

 public:
  /// The type of an input in the buffers.
  using element = std::conditional_t<std::is_void_v<Element> || token_dataset<Data>,
                                     typename Data::element, Element>;
  /// The type of a target in the buffers.
  using target = std::conditional_t<
      has_real_targets,
      accumulate_t<std::conditional_t<
          std::is_void_v<Element>,
          std::conditional_t<token_dataset<Data>, float, typename Data::element>, Element>>,
      std::int32_t>;
  /// The value of a target that the loss ignores.
  static constexpr target no_target = [] {
    if constexpr (has_real_targets) return std::numeric_limits<target>::quiet_NaN();
    else return ignored_target;
  }();

  /// The type of a buffer of positions; an empty span if the data set never numbers documents, so
  /// that its batches have no code for them.
  using positions_type = std::conditional_t<may_have_documents<Data>, std::vector<std::int32_t>,
                                            std::span<std::int32_t>>;

  /// The buffers for one microbatch, or for several microbatches one after the other. If samples
  /// have no weights, `weights` is empty; if they have no documents, `positions` is empty.
  struct buffers {
    std::span<element> inputs;    ///< (sequence, batch, width); width is 1 for tokens
    std::span<target> targets;    ///< (sequence, batch, target_width)
    std::span<double> weights{};  ///< (sequence, batch)
    /// The position of each token within its document, (sequence, batch).
    std::span<std::int32_t> positions{};
  };

  /// Makes a loader of a data set.
  ///
  /// Errors: input_error if a sample has no elements.
  [[gnu::cold]] explicit loader(Data const& data);
  explicit loader(Data const&&) = delete;

  [[nodiscard]] Data const& data() const { return *data_; }

  /// Returns the number of inputs of one sample in the buffer; the next function returns the number
  /// of targets.
  [[nodiscard]] std::size_t inputs_per_sample() const { return sequence_ * width_; }
  [[nodiscard]] std::size_t targets_per_sample() const { return sequence_ * target_width_; }
  [[nodiscard]] std::size_t target_width() const { return target_width_; }
  /// Returns the number of bytes of the loader's own buffers.
  [[nodiscard]] std::size_t host_bytes() const {
    return (inputs_.size() + scratch_.size()) * sizeof(typename Data::element) +
           targets_.size() * sizeof(target_of<Data>) + positions_.size() * sizeof(std::int32_t);
  }
  [[nodiscard]] std::size_t weights_per_sample() const {
    return weighted_dataset<Data> ? sequence_ : 0;
  }
  [[nodiscard]] std::size_t positions_per_sample() const { return positions_.size(); }

  /// Returns a hash, so that data sets can be compared. It is computed from the shape of the data
  /// set and from its fingerprint(). If the data set does not define fingerprint(), 64 samples that
  /// are spread over the data set are read instead.
  ///
  /// Cost: reads these samples if there is no fingerprint().
  [[nodiscard]] [[gnu::cold]] std::uint64_t fingerprint();

  /// The number that marks a place without a sample.
  static constexpr std::size_t no_sample = std::numeric_limits<std::size_t>::max();

  /// Fills the microbatches of one step, one after another. Microbatch m gets the samples from
  /// index m * batch on, where `batch`, the number of places of a microbatch, follows from the
  /// buffers' sizes.
  ///
  /// Shapes: samples (at most microbatches * batch)
  /// Errors: size_mismatch if sizes do not match, before anything is written; input_error for a
  ///         weight that is negative or not finite, or for document numbers that fall.
  void fill(std::span<std::size_t const> samples, int microbatches, buffers const& out,
            std::int64_t epoch = no_epoch);

  /// Fills one place of the buffers, in which each microbatch has `batch` places. The place gets
  /// the given sample in the given epoch or, for no_sample, zeros and ignored targets. The buffers
  /// must have the shapes that `fill` needs.
  ///
  /// Errors: input_error for a weight that is negative or not finite, or for document numbers that
  ///         fall.
  void fill_place(std::size_t sample, std::int64_t epoch, std::size_t place, std::size_t batch,
                  buffers const& out);

 private:
  static std::size_t width_of(Data const& data) {
    if constexpr (feature_dataset<Data>) return data.width();
    else return 1;
  }

  /// Reads a sample into the loader's own buffers; for no_sample, writes zeros and ignored targets.
  void read(std::size_t sample, std::int64_t epoch);
  void write(std::size_t position, std::size_t row, buffers const& out) const;
  static target_of<Data> missing() {
    if constexpr (has_real_targets) return 0;
    else return ignored_target;
  }

  Data const* data_;
  std::size_t sequence_;
  std::size_t width_;
  std::size_t target_width_;
  std::vector<typename Data::element> inputs_, scratch_;  // buffers of one sample
  std::vector<target_of<Data>> targets_;
  positions_type positions_;  // empty if the samples have no documents
  double weight_ = 0;
};

template <class Data, class Element>
loader<Data, Element>::loader(Data const& data)
    : data_(&data),
      sequence_(data.sequence_length()),
      width_(width_of(data)),
      target_width_(target_width_of(data)),
      inputs_(sequence_ * width_),
      scratch_(scratch_elements_of(data)),
      targets_((has_targets_per_sample<Data> ? 1 : sequence_) * target_width_) {
  if constexpr (may_have_documents<Data>)
    if (has_documents_of(data)) positions_.resize(sequence_);
  if (sequence_ == 0 || width_ == 0 || target_width_ == 0)
    throw input_error({"loader: samples have the shape (", sequence_, ", ", width_,
                       ") and targets of width ", target_width_,
                       "; all of these numbers must be at least 1"});
}

template <class Data, class Element>
auto loader<Data, Element>::fingerprint() -> std::uint64_t {
  detail::hash out;
  auto const add = [&](void const* data, std::size_t bytes) {
    out.add({static_cast<std::byte const*>(data), bytes});
  };
  std::uint64_t const shape[]{data_->size(), sequence_, width_, target_width_};
  add(shape, sizeof shape);
  if constexpr (requires { data_->fingerprint(); })
    return out.add(std::uint64_t{data_->fingerprint()}).value();
  constexpr std::size_t most = 64;
  std::size_t const count = std::min(most, data_->size());
  for (std::size_t i = 0; i < count; ++i) {
    // The samples are spread evenly, including the first and the last.
    std::size_t const sample = count < 2 ? 0 : i * (data_->size() - 1) / (count - 1);
    read(sample, no_epoch);
    add(inputs_.data(), inputs_.size() * sizeof(inputs_[0]));
    add(targets_.data(), targets_.size() * sizeof(targets_[0]));
    if constexpr (weighted_dataset<Data>) add(&weight_, sizeof weight_);
    if constexpr (may_have_documents<Data>)
      add(positions_.data(), positions_.size() * sizeof(std::int32_t));
  }
  return out.value();
}

template <class Data, class Element>
void loader<Data, Element>::fill(std::span<std::size_t const> samples, int microbatches,
                                 buffers const& out, std::int64_t epoch) {
  auto const count = static_cast<std::size_t>(std::max(microbatches, 1));
  std::size_t const batch = out.targets.size() / targets_per_sample() / count;
  std::size_t const places = count * batch;
  if (microbatches < 1 || out.targets.size() != places * targets_per_sample() ||
      out.inputs.size() != places * inputs_per_sample() ||
      out.weights.size() != places * weights_per_sample() ||
      out.positions.size() != places * positions_.size() || samples.size() > places)
    throw size_mismatch({"loader: ", samples.size(), " samples of (", sequence_, ", ", width_,
                         ") do not fit into ", microbatches, " microbatches with ",
                         out.inputs.size(), " inputs, ", out.targets.size(), " targets and ",
                         out.weights.size(), " weights in all"});
  for (std::size_t place = 0; place < places; ++place)
    fill_place(place < samples.size() ? samples[place] : no_sample, epoch, place, batch, out);
}

template <class Data, class Element>
void loader<Data, Element>::fill_place(std::size_t sample, std::int64_t epoch, std::size_t place,
                                       std::size_t batch, buffers const& out) {
  read(sample, epoch);
  std::size_t const first = place / batch * batch * sequence_ + place % batch;
  for (std::size_t position = 0; position < sequence_; ++position)
    write(position, first + position * batch, out);
}

template <class Data, class Element>
void loader<Data, Element>::read(std::size_t sample, std::int64_t epoch) {
  if (sample == no_sample) {
    std::fill(inputs_.begin(), inputs_.end(), typename Data::element{0});
    std::fill(targets_.begin(), targets_.end(), missing());
    if constexpr (may_have_documents<Data>)
      for (std::size_t i = 0; i < positions_.size(); ++i)
        positions_[i] = static_cast<std::int32_t>(i);
    weight_ = 0;
    return;
  }
  write_inputs(*data_, sample, epoch, std::span(inputs_), std::span(scratch_));
  write_targets(*data_, sample, epoch, std::span(targets_));
  if constexpr (may_have_documents<Data>)
    if (!positions_.empty()) {
      write_documents(*data_, sample, epoch, std::span(positions_));
      detail::count_positions(positions_, sample);
    }
  if constexpr (weighted_dataset<Data>) {
    weight_ = weight_of(*data_, sample, epoch);
    if (!(weight_ >= 0) || !std::isfinite(weight_))
      throw input_error({"loader: sample ", sample, " has the weight ", std::to_string(weight_),
                         "; weights must be finite and not negative"});
  }
}

template <class Data, class Element>
void loader<Data, Element>::write(std::size_t position, std::size_t row, buffers const& out) const {
  std::transform(inputs_.data() + position * width_, inputs_.data() + (position + 1) * width_,
                 out.inputs.data() + row * width_,
                 [](auto value) { return static_cast<element>(value); });
  auto* const targets = out.targets.data() + row * target_width_;
  bool const has_targets = !has_targets_per_sample<Data> || position + 1 == sequence_;
  std::size_t const from = has_targets_per_sample<Data> ? 0 : position * target_width_;
  for (std::size_t i = 0; i < target_width_; ++i)
    targets[i] = has_targets ? static_cast<target>(targets_[from + i]) : no_target;
  if constexpr (weighted_dataset<Data>) out.weights[row] = weight_;
  if constexpr (may_have_documents<Data>)
    if (!positions_.empty()) out.positions[row] = positions_[position];
}

}  // namespace plait::ext
