// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/data/adaptor.hpp"
#include "plait/data/picture_shape.hpp"

namespace plait::detail {

/// The weights with which outputs are computed from inputs along one axis. As a function of the
/// distance from the output's centre, the weights form a triangle. On each side, the triangle is as
/// wide as the distance between two outputs or between two inputs, whichever is larger.
class triangle_weights {
 public:
  [[gnu::cold]] triangle_weights(std::size_t from, std::size_t to);

  /// Calls term(input, weight) for each input from which an output is computed, in order.
  template <class Term>
  void for_each(std::size_t output, Term term) const {
    auto const& at = places_[output];
    for (std::size_t i = 0; i < at.count; ++i) term(at.first + i, weights_[at.weights + i]);
  }

 private:
  struct place {
    std::size_t first, weights, count;
  };
  std::vector<place> places_{};
  std::vector<double> weights_{};
};

}  // namespace plait::detail

namespace plait::ext {

/// A data set of resized pictures: the result of `data | resize(...)`.
///
/// Each output is a weighted mean of the inputs around it, first along rows, then along columns. If
/// pictures become smaller, the mean covers all inputs within the area of the output.
///
/// Cost: scratch memory for a picture, and for a picture with the old height and the new width.
template <class Held>
class resized_data : public adapted_data<Held> {
  using base = adapted_data<Held>;

 public:
  using typename base::element;

  template <class Data>
  [[gnu::cold]] resized_data(Data&& data, std::size_t shorter, std::size_t height,
                             std::size_t width)
      : base(std::in_place, std::forward<Data>(data)),
        from_(detail::shape_of_pictures(this->data(), "resize")),
        to_(shape_for(from_, shorter, height, width)),
        text_(shorter > 0 ? std::to_string(shorter) : concat({height, ", ", width})),
        rows_(from_.width, to_.width),
        columns_(from_.height, to_.height) {}

  [[nodiscard]] std::size_t width() const { return to_.elements(); }
  [[nodiscard]] plait::picture_shape picture_shape() const { return to_; }
  [[nodiscard]] std::size_t scratch_elements() const {
    return from_.elements() + std::max(scratch_elements_of(this->data()), narrowed());
  }
  [[nodiscard]] std::string description() const {
    return this->followed_by(concat({"resize(", text_, ")"}));
  }
  void inputs(std::size_t sample, std::int64_t epoch, std::span<element> out,
              std::span<element> scratch) const {
    auto const picture = scratch.first(from_.elements());   // (channels, height, width)
    auto const narrow = scratch.subspan(from_.elements());  // (channels, height, out width)
    write_inputs(this->data(), sample, epoch, picture, narrow);
    for (std::size_t row = 0; row < from_.channels * from_.height; ++row) {
      auto const* const in = picture.data() + row * from_.width;
      for (std::size_t x = 0; x < to_.width; ++x) {
        double sum = 0;
        rows_.for_each(x, [&](std::size_t at, double weight) { sum += weight * in[at]; });
        narrow[row * to_.width + x] = static_cast<element>(sum);
      }
    }
    for (std::size_t row = 0; row < to_.channels * to_.height; ++row) {
      auto* const to = out.data() + row * to_.width;
      auto const* const in = narrow.data() + row / to_.height * from_.height * to_.width;
      std::fill_n(to, to_.width, element{0});
      columns_.for_each(row % to_.height, [&](std::size_t at, double weight) {
        for (std::size_t x = 0; x < to_.width; ++x)
          to[x] += static_cast<element>(weight) * in[at * to_.width + x];
      });
    }
  }

 private:
  [[nodiscard]] std::size_t narrowed() const { return from_.channels * from_.height * to_.width; }
  [[gnu::cold]] static plait::picture_shape shape_for(plait::picture_shape const& from,
                                                      std::size_t shorter, std::size_t height,
                                                      std::size_t width) {
    if (shorter > 0 && from.height <= from.width)
      height = shorter, width = shorter * from.width / from.height;
    else if (shorter > 0) width = shorter, height = shorter * from.height / from.width;
    constexpr std::size_t most = 65'536;
    if (height == 0 || width == 0 || height > most || width > most)
      throw input_error({"resize: pictures of ", detail::to_text(from), " would become ", height,
                         " x ", width, "; both must be from 1 to ", most});
    return {from.channels, height, width};
  }

  plait::picture_shape from_, to_;
  std::string text_;
  detail::triangle_weights rows_, columns_;
};

}  // namespace plait::ext

namespace plait {

/// Resizes pictures: `data | plait::resize(256)` makes the shorter side 256 and the longer one
/// proportional, rounded down; `data | plait::resize(height, width)` sets both.
///
/// Errors: input_error for a side that is 0 or above 65 536.
class resize {
 public:
  using concept_tag = ext::adaptor_tag;

  explicit resize(std::size_t shorter);
  resize(std::size_t height, std::size_t width) : height_(height), width_(width) {}

  template <class Data>
  [[nodiscard]] auto on(Data&& data) const {
    using Pictures = std::remove_cvref_t<Data>;
    detail::check_pictures<Pictures>();
    if constexpr (ext::picture_dataset<Pictures>)
      return ext::resized_data<ext::held_data<Data>>(std::forward<Data>(data), shorter_, height_,
                                                     width_);
    else return 0;  // prevents further compile errors
  }

 private:
  std::size_t shorter_ = 0, height_, width_;
};

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/data/resize.ipp"
#endif
