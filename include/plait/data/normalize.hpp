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

/// A data set with (features - mean) / deviation: what `data | normalize(mean, deviation)` makes.
template <class Held>
class normalized_data : public adapted_data<Held> {
  using base = adapted_data<Held>;
  static_assert(feature_dataset<typename base::data_type>,
                "data | normalize(mean, deviation): the data set has tokens, which are no numbers "
                "to calculate with; its element must be float or double");

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
      throw input_error({"normalize: ", count, " means and ", deviation_.size(),
                         " deviations for samples of width ", width,
                         (channels == 0 ? "" : concat({" in ", channels, " channels"})),
                         "; give one of each for all, or one for each feature",
                         (channels == 0 ? "" : " or channel")});
    for (std::size_t i = 0; i < count; ++i)
      if (!std::isfinite(mean_[i]) || !std::isfinite(deviation_[i]) || !(deviation_[i] > 0))
        throw input_error({"normalize: mean ", detail::to_text(mean_[i]), " and deviation ",
                           detail::to_text(deviation_[i]), " at place ", i,
                           "; they must be finite, and a deviation above 0"});
    run_ = count == 1 ? width : is_of_channels ? width / channels : 1;
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
  }

 private:
  std::vector<double> mean_, deviation_;
  std::size_t run_ = 1;  // neighbours that have the same
};

}  // namespace plait::ext

namespace plait {

/// The adaptor that subtracts a mean from features and divides them by a deviation:
/// `data | plait::normalize(0.13, 0.31)`, or lists with one number for each feature, or for each
/// channel of pictures.
///
/// Errors: input_error for lists of other lengths, and for a deviation that is not above 0.
///
/// Example (tests/reference/names_in_use_test.cpp normalize):
///     auto const scaled = data | plait::normalize(0.5, 0.25);  // (x - 0.5) / 0.25
class normalize {
 public:
  using concept_tag = ext::adaptor_tag;

  normalize(double mean, double deviation) : mean_{mean}, deviation_{deviation} {}
  normalize(std::vector<double> mean, std::vector<double> deviation)
      : mean_(std::move(mean)), deviation_(std::move(deviation)) {}

  template <class Data>
  [[nodiscard]] auto on(Data&& data) const {
    return ext::normalized_data<ext::held_data<Data>>(std::forward<Data>(data), mean_, deviation_);
  }

 private:
  std::vector<double> mean_, deviation_;
};

}  // namespace plait
