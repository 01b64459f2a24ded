// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/hash.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/data/dataset.hpp"
#include "plait/data/loader.hpp"
#include "plait/data/sampler.hpp"
#include "plait/tensor/batch.hpp"

namespace plait::ext {

/// The options of `plait::split_data`.
struct split_options {
  std::uint64_t seed = 0;
  /// The way in which the samples of a part are chosen: at random (shuffled), or as adjacent
  /// samples (sequential), for example for time series.
  sample_order how = sample_order::shuffled;
};

/// A data set that consists of a part of the samples of another data set: a result of `split_data`.
///
/// Cost:    no memory per sample; about 200 ns to find a sample's number, when shuffled.
/// Threads: all members are const and may run at the same time.
template <dataset Data>
class dataset_part {
 public:
  using concept_tag = dataset_tag;
  using element = typename Data::element;
  using target = target_of<Data>;
  static constexpr bool targets_per_sample = has_targets_per_sample<Data>;

  /// Makes a part from a contiguous range of samples: the places `which` in the order that sampler
  /// `of` defines.
  dataset_part(std::shared_ptr<Data const> data, sampler const& of, sample_slice which)
      : data_(std::move(data)), order_(of), which_(which) {}

  [[nodiscard]] std::size_t size() const { return which_.count; }
  [[nodiscard]] std::size_t sequence_length() const { return data_->sequence_length(); }
  [[nodiscard]] std::size_t width() const
    requires feature_dataset<Data>
  {
    return data_->width();
  }
  [[nodiscard]] std::size_t target_width() const { return target_width_of(*data_); }

  void inputs(std::size_t sample, std::span<element> out) const
    requires detail::gives_inputs<Data>
  {
    data_->inputs(number_of(sample), out);
  }
  void inputs(std::size_t sample, std::int64_t epoch, std::span<element> out,
              std::span<element> scratch) const {
    write_inputs(*data_, number_of(sample), epoch, out, scratch);
  }
  static constexpr bool is_random = is_random_data<Data>;
  static constexpr int random_adaptors = random_adaptors_in<Data>;
  [[nodiscard]] std::size_t scratch_elements() const { return scratch_elements_of(*data_); }
  void targets(std::size_t sample, std::span<target> out) const {
    data_->targets(number_of(sample), out);
  }
  [[nodiscard]] double weight(std::size_t sample) const
    requires weighted_dataset<Data>
  {
    return static_cast<double>(data_->weight(number_of(sample)));
  }

  void documents(std::size_t sample, std::span<std::int32_t> out) const
    requires may_have_documents<Data>
  {
    write_documents(*data_, number_of(sample), ext::no_epoch, out);
  }
  [[nodiscard]] bool has_documents() const { return has_documents_of(*data_); }

  [[nodiscard]] auto picture_shape() const
    requires requires(Data const& data) { data.picture_shape(); }
  {
    return data_->picture_shape();
  }

  [[nodiscard]] bool has_missing() const
    requires requires(Data const& data) { data.has_missing(); }
  {
    return data_->has_missing();
  }

  /// Returns the description of the whole data set, followed by the places of the part's samples in
  /// the order of the split.
  [[nodiscard]] std::string description() const
    requires requires(Data const& data) { data.description(); }
  {
    auto const how = order_.options();
    return concat(
        {"split_data(", description_of(*data_), ", samples ", which_.first, " to ",
         which_.first + which_.count - 1,
         (how.order == sample_order::shuffled ? concat({", shuffled by seed ", how.seed, ")"})
                                              : ")")});
  }

  /// Returns a fingerprint of the whole data set and of the places of the part's samples.
  [[nodiscard]] std::uint64_t fingerprint() const {
    auto const how = order_.options();
    return detail::hash()
        .add(loader<Data>(*data_).fingerprint())
        .add(how.order == sample_order::shuffled ? how.seed + 1 : 0)
        .add(std::uint64_t{which_.first})
        .add(std::uint64_t{which_.count})
        .value();
  }

  /// Returns the number that sample `sample` of this part has in the whole data set.
  ///
  /// Errors: size_mismatch if there is no such sample.
  [[nodiscard]] std::size_t number_of(std::size_t sample) const {
    if (sample >= size())
      throw size_mismatch({"split_data: sample ", sample, " of a part of ", size(), " samples"});
    return order_.at(no_epoch, which_.first + sample);
  }

 private:
  // The epoch whose order is used for the split. Batches with the same seed never use it, since
  // their epochs count from 0 on.
  static constexpr std::uint64_t no_epoch = ~std::uint64_t{0};

  std::shared_ptr<Data const> data_;
  sampler order_;
  sample_slice which_;
};

}  // namespace plait::ext

namespace plait {

/// Splits a data set into two parts, so that each sample is in exactly one part. The first part has
/// `fraction` times the number of samples, rounded: `auto [train, rest] = plait::split_data(data,
/// 0.8);`.
///
/// A temporary data set is moved into the parts, which share it; a named data set must outlive
/// them. A part can itself be split.
/// Errors: input_error if the fraction is not between 0 and 1, or a part would be empty.
///
/// Example (tests/reference/names_in_use_test.cpp split_data):
///     auto const [train, held_out] = plait::split_data(data, 0.75, {.seed = 1});
template <class Data>
[[nodiscard]] auto split_data(Data&& data, double fraction,
                              ext::split_options const& options = {}) {
  using Whole = std::remove_cvref_t<Data>;
  constexpr bool is_dataset = dataset<Whole>;
  static_assert(is_dataset,
                "split_data(data, fraction): the first argument is not a data set; write "
                "plait::in_memory<float> data(...) for samples in memory. A data set type of your "
                "own must define concept_tag, element, size, sequence_length, inputs and targets; "
                "see plait/data/dataset.hpp");
  constexpr bool keeps_samples = !detail::gives_targets_of_epoch<Whole>;
  static_assert(keeps_samples,
                "split_data(data, fraction): the samples of a mixture differ between epochs, so a "
                "sample would be in both parts; split each source and mix the parts");
  if constexpr (is_dataset && keeps_samples) {
    if (!(fraction > 0 && fraction < 1))
      throw input_error({"split_data: the fraction is ", std::to_string(fraction),
                         "; it must be above 0 and below 1, because it is the first part's share "
                         "of the samples"});
    std::size_t const size = data.size();
    auto const first = static_cast<std::size_t>(fraction * static_cast<double>(size) + 0.5);
    if (first == 0 || first >= size)
      throw input_error(
          {"split_data: a fraction of ", std::to_string(fraction), " of ", size,
           " samples gives parts of ", first, " and ", size - first,
           "; each part needs at least one sample; use more samples or another fraction"});
    std::shared_ptr<Whole const> held;
    if constexpr (std::is_lvalue_reference_v<Data>)
      held = std::shared_ptr<Whole const>(std::shared_ptr<void>{}, &data);
    else held = std::make_shared<Whole const>(std::forward<Data>(data));
    ext::sampler const order(size, {.seed = options.seed, .order = options.how});
    using part = ext::dataset_part<Whole>;
    return std::pair{part(held, order, {0, first}), part(held, order, {first, size - first})};
  } else {
    return std::pair{0, 0};  // prevents further compile errors
  }
}

}  // namespace plait
