// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/data/adaptor.hpp"
#include "plait/data/picture_shape.hpp"
#include "plait/data/sample_random.hpp"

namespace plait::ext {

/// A data set whose pictures are cropped to a given size: the result of `data | crop<H, W>` and
/// `data | random_crop<H, W>(n)`. If `Random` is true, the position of the region is random and
/// differs between epochs; in evaluations the region is in the middle.
///
/// Cost: memory for one picture in the scratch buffer.
template <class Held, std::size_t Height, std::size_t Width, bool Random>
class cropped_data : public adapted_data<Held> {
  using base = adapted_data<Held>;
  static constexpr int place = base::random_adaptors;

 public:
  using typename base::element;
  static constexpr bool is_random = base::is_random || Random;
  static constexpr int random_adaptors = place + (Random ? 1 : 0);

  template <class Data>
  [[gnu::cold]] cropped_data(Data&& data, std::size_t padding, std::uint64_t seed)
      : base(std::in_place, std::forward<Data>(data)),
        from_(detail::shape_of_pictures(this->data(), name())),
        padding_(padding),
        seed_(seed) {
    constexpr std::size_t most = 65'536;
    if (padding > most || from_.height > most || from_.width > most ||
        Height > from_.height + 2 * padding || Width > from_.width + 2 * padding)
      throw input_error({name(), ": a region cannot be cut out of pictures of ",
                         detail::to_text(from_),
                         (Random ? concat({" with a padding of ", padding}) : ""),
                         ", which are smaller than the region or larger than ", most});
  }

  [[nodiscard]] std::size_t width() const { return picture_shape().elements(); }
  [[nodiscard]] plait::picture_shape picture_shape() const {
    return {from_.channels, Height, Width};
  }
  [[nodiscard]] std::size_t scratch_elements() const {
    return from_.elements() + scratch_elements_of(this->data());
  }
  [[nodiscard]] std::string description() const {
    auto const numbers = concat({"(", padding_, ", seed ", seed_, ")"});
    return this->followed_by(name() + (Random ? numbers : ""));
  }
  void inputs(std::size_t sample, std::int64_t epoch, std::span<element> out,
              std::span<element> scratch) const {
    auto const picture = scratch.first(from_.elements());  // (channels, height, width)
    write_inputs(this->data(), sample, epoch, picture, scratch.subspan(from_.elements()));
    std::size_t const rows = from_.height + 2 * padding_ - Height;
    std::size_t const columns = from_.width + 2 * padding_ - Width;
    std::size_t top = rows / 2, left = columns / 2;
    if (Random && epoch != no_epoch) {
      sample_random numbers(seed_, place, epoch, sample);
      top = numbers.below(static_cast<std::uint32_t>(rows + 1));
      left = numbers.below(static_cast<std::uint32_t>(columns + 1));
    }
    if (padding_ > 0) std::fill(out.begin(), out.end(), element{0});
    // The result's columns [skip, end) are copied from the picture; the other columns are padding.
    std::size_t const skip = left < padding_ ? padding_ - left : 0;
    std::size_t const end =
        std::min(Width, from_.width + padding_ - std::min(left, from_.width + padding_));
    for (std::size_t row = 0; row < from_.channels * Height; ++row) {
      std::size_t const y = top + row % Height;
      if (y < padding_ || y - padding_ >= from_.height || skip >= end) continue;
      auto const* const in =
          picture.data() + (row / Height * from_.height + y - padding_) * from_.width;
      std::copy_n(in + (left + skip - padding_), end - skip, out.data() + row * Width + skip);
    }
  }

 private:
  [[gnu::cold]] static std::string name() {
    return concat({Random ? "random_crop<" : "crop<", Height, ", ", Width, ">"});
  }

  plait::picture_shape from_;
  std::size_t padding_;
  std::uint64_t seed_;
};

}  // namespace plait::ext

namespace plait::detail {

template <std::size_t Height, std::size_t Width, bool Random, class Data>
[[nodiscard]] auto crop_of(Data&& data, std::size_t padding, std::uint64_t seed) {
  static_assert(Height > 0 && Width > 0,
                "crop<Height, Width> or random_crop<Height, Width>: Height or Width is 0; both "
                "must be at least 1");
  using Pictures = std::remove_cvref_t<Data>;
  check_pictures<Pictures>();
  if constexpr (picture_dataset<Pictures>)
    return cropped_data<held_data<Data>, Height, Width, Random>(std::forward<Data>(data), padding,
                                                                seed);
  else return 0;  // prevents further compile errors
}

}  // namespace plait::detail

namespace plait::ext {

/// The type of `crop<Height, Width>`.
template <std::size_t Height, std::size_t Width>
class crop_adaptor {
 public:
  using concept_tag = adaptor_tag;

  constexpr crop_adaptor operator()() const { return *this; }
  template <class Data>
  [[nodiscard]] auto on(Data&& data) const {
    return detail::crop_of<Height, Width, false>(std::forward<Data>(data), 0, 0);
  }
};

}  // namespace plait::ext

namespace plait {

/// Cuts a region of the given size out of the middle of each picture: `data | plait::crop<224,
/// 224>`.
///
/// Errors: input_error if the pictures are smaller than the region.
template <std::size_t Height, std::size_t Width>
inline constexpr ext::crop_adaptor<Height, Width> crop{};

/// Adds `padding` rows and columns of zeros on all sides of each picture, then cuts out a region of
/// the given size at a random position: `data | plait::random_crop<32, 32>(4)`. In evaluations the
/// region is in the middle.
///
/// Errors: input_error if pictures with their padding are smaller than the region.
template <std::size_t Height, std::size_t Width>
class random_crop {
 public:
  using concept_tag = ext::adaptor_tag;

  explicit random_crop(std::size_t padding = 0, std::uint64_t seed = 0)
      : padding_(padding), seed_(seed) {}

  template <class Data>
  [[nodiscard]] auto on(Data&& data) const {
    return detail::crop_of<Height, Width, true>(std::forward<Data>(data), padding_, seed_);
  }

 private:
  std::size_t padding_;
  std::uint64_t seed_;
};

}  // namespace plait
