// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/data/adaptor.hpp"
#include "plait/data/dataset.hpp"

namespace plait::ext {

/// A data set whose features are (features - mean) / deviation: the result of `data |
/// normalize(mean, deviation)`.
template <class Held>
class normalized_data : public adapted_data<Held> {
  using base = adapted_data<Held>;
  static_assert(feature_dataset<typename base::data_type>,
                "data | normalize(mean, deviation): the data set has tokens, which cannot be "
                "normalised; the element type of the data set must be float or double");

 public:
  using typename base::element;

  template <class Data>
  [[gnu::cold]] normalized_data(Data&& data, std::vector<double> mean,
                                std::vector<double> deviation)
      : base(std::in_place, std::forward<Data>(data)),
        mean_(std::move(mean)),
        deviation_(std::move(deviation)) {
    std::size_t const count = mean_.size(), width = this->data().width();
    std::size_t channels = 0;
    if constexpr (picture_dataset<typename base::data_type>)
      channels = detail::shape_of_pictures(this->data(), "normalize").channels;
    bool const is_of_channels = channels > 0 && count == channels;
    if (count != deviation_.size() ||
        (count != 1 && count != width && (channels == 0 || count != channels)))
      throw input_error(
          {"normalize: ", count, " means and ", deviation_.size(),
           " deviations for samples of width ", width,
           (channels == 0 ? "" : concat({" in ", channels, " channels"})),
           "; pass one mean and one deviation for all features, or one of each for every feature",
           (channels == 0 ? "" : " or channel")});
    for (std::size_t i = 0; i < count; ++i)
      if (!std::isfinite(static_cast<element>(mean_[i])) ||
          !std::isfinite(static_cast<element>(deviation_[i])) ||
          !(static_cast<element>(deviation_[i]) > 0))
        throw input_error({"normalize: mean ", detail::to_text(mean_[i]), " and deviation ",
                           detail::to_text(deviation_[i]), " at place ", i,
                           "; both must be finite, and the deviation must be above 0"});
    run_ = count == 1 ? width : is_of_channels ? width / channels : 1;
    fills_ = has_missing_of(this->data());
  }

  [[nodiscard]] std::string description() const {
    return this->followed_by(
        concat({"normalize(", detail::to_text(mean_), ", ", detail::to_text(deviation_), ")"}));
  }
  void inputs(std::size_t sample, std::int64_t epoch, std::span<element> out,
              std::span<element> scratch) const {
    write_inputs(this->data(), sample, epoch, out, scratch);
    std::size_t which = 0;
    for (std::size_t first = 0; first < out.size(); first += run_) {
      auto const mean = static_cast<element>(mean_[which]);
      auto const deviation = static_cast<element>(deviation_[which]);
      for (auto& value : out.subspan(first, run_)) value = (value - mean) / deviation;
      if (++which == mean_.size()) which = 0;
    }
    if (!fills_) return;
    for (auto& value : out)
      if (std::isnan(value))
        value = 0;  // a missing feature becomes the mean, which is 0 after normalization
  }
  [[nodiscard]] bool has_missing() const { return false; }

 private:
  std::vector<double> mean_, deviation_;
  std::size_t run_ = 1;  // the number of adjacent features that share a mean and a deviation
  bool fills_ = false;
};

}  // namespace plait::ext

namespace plait {

/// Subtracts a mean from features and divides the differences by a standard deviation: `data |
/// plait::normalize(0.13, 0.31)`, or with two lists that have a number for each feature, or for
/// each channel of pictures. Missing features (`table_options::keep_missing`) become 0, as if they
/// had their mean.
///
/// Errors: input_error for lists with the wrong length, and for a deviation that is not greater
///         than 0.
///
/// Example (tests/reference/names_in_use_test.cpp normalize):
///     auto const scaled = data | plait::normalize(0.5, 0.25);  // (x - 0.5) / 0.25
class normalize {
 public:
  using concept_tag = ext::adaptor_tag;

  normalize(double mean, double deviation) : mean_{mean}, deviation_{deviation} {}
  normalize(std::vector<double> mean, std::vector<double> deviation)
      : mean_(std::move(mean)), deviation_(std::move(deviation)) {}

  /// Makes the adaptor with the mean and the standard deviation of each feature of a data set, or
  /// of each channel of pictures. Pass the training part and apply the adaptor to all parts, so
  /// that held-out samples do not influence these numbers. Missing features are ignored.
  ///
  /// A feature that is constant, or is only 0 and 1, such as the words of `table_options::one_hot`,
  /// gets a deviation of 1: the deviation of a rare word is small, and divided by it the feature
  /// would become a large number.
  /// Cost:   reads the data set twice, one sample after the other, so that every rank computes the
  ///         same means and deviations. Random data sets are read without random changes, as in
  ///         evaluations.
  /// Errors: input_error if a feature is missing in all samples, or is nan although the data set
  ///         has no missing features.
  template <class Data>
  [[nodiscard]] [[gnu::cold]] static normalize from(Data const& data) {
    constexpr bool has_features = ext::feature_dataset<Data>;
    static_assert(
        has_features,
        "normalize::from(data): the argument is not a data set of features; pass a data set whose "
        "element type is float or double, such as a part that plait::split_data returns");
    if constexpr (has_features) return of_features(data);
    else return {0, 1};  // prevents further compile errors
  }

  /// Returns the mean of each feature or channel, or a single mean for all features.
  [[nodiscard]] std::vector<double> const& mean() const { return mean_; }
  /// Returns the standard deviation of each feature or channel, or a single deviation for all
  /// features. The sum of squares is divided by the number of samples, not by that number minus 1.
  [[nodiscard]] std::vector<double> const& deviation() const { return deviation_; }

  template <class Data>
  [[nodiscard]] auto on(Data&& data) const {
    return ext::normalized_data<ext::held_data<Data>>(std::forward<Data>(data), mean_, deviation_);
  }

 private:
  template <class Data>
  [[nodiscard]] [[gnu::cold]] static normalize of_features(Data const& data) {
    using element = typename Data::element;
    std::size_t const width = data.width();
    std::size_t count = width;
    if constexpr (ext::picture_dataset<Data>)
      count = detail::shape_of_pictures(data, "normalize::from").channels;
    bool const may_miss = ext::has_missing_of(data);
    std::vector<element> sample(data.sequence_length() * width);
    std::vector<element> scratch(ext::scratch_elements_of(data));
    auto const each = [&](auto const& use) {
      for (std::size_t s = 0; s < data.size(); ++s) {
        ext::write_inputs(data, s, ext::no_epoch, std::span(sample), std::span(scratch));
        for (std::size_t i = 0; i < sample.size(); ++i) {
          std::size_t const which = i % width / (width / count);
          if (!std::isnan(sample[i])) use(which, static_cast<double>(sample[i]));
          else if (!may_miss)
            throw input_error({"normalize::from: feature ", which, " of sample ", s, " is nan"});
        }
      }
    };
    std::vector<double> first(count), mean(count), deviation(count);
    std::vector<std::size_t> found(count), changes(count), others(count);
    each([&](std::size_t which, double value) {
      if (found[which]++ == 0) first[which] = value;
      if (value != first[which]) ++changes[which];
      if (value != 0 && value != 1) ++others[which];
      mean[which] += value;
    });
    for (std::size_t i = 0; i < count; ++i) {
      if (found[i] == 0)
        throw input_error({"normalize::from: feature ", i, " is missing in all ", data.size(),
                           " samples; list its column in table_options::ignored"});
      mean[i] = changes[i] == 0 ? first[i] : mean[i] / static_cast<double>(found[i]);
    }
    each([&](std::size_t which, double value) {
      deviation[which] += (value - mean[which]) * (value - mean[which]);
    });
    for (std::size_t i = 0; i < count; ++i) {
      bool const is_scaled = changes[i] > 0 && others[i] > 0;
      deviation[i] = is_scaled ? std::sqrt(deviation[i] / static_cast<double>(found[i])) : 1;
      // The deviation is too small to divide by.
      if (static_cast<element>(deviation[i]) == 0) deviation[i] = 1;
    }
    return {std::move(mean), std::move(deviation)};
  }

  std::vector<double> mean_, deviation_;
};

}  // namespace plait
