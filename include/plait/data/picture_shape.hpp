// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <string>

#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/data/dataset.hpp"

namespace plait {

/// The shape of pictures, whose features are stored in the order channels, height, width
/// (row-major).
struct picture_shape {
  std::size_t channels = 0, height = 0, width = 0;

  [[nodiscard]] constexpr std::size_t elements() const { return channels * height * width; }
  friend constexpr bool operator==(picture_shape const&, picture_shape const&) = default;
};

}  // namespace plait

namespace plait::ext {

/// A data set whose samples are pictures: it has a `picture_shape()`, whose result has channels,
/// height and width.
template <class D>
concept picture_dataset = feature_dataset<D> && requires(D const& data) {
  { data.picture_shape().channels } -> std::convertible_to<std::size_t>;
  { data.picture_shape().height } -> std::convertible_to<std::size_t>;
  { data.picture_shape().width } -> std::convertible_to<std::size_t>;
};

}  // namespace plait::ext

namespace plait::detail {

/// Returns a text such as "3 x 224 x 224".
[[nodiscard]] [[gnu::cold]] std::string to_text(picture_shape const& of);

/// Returns the shape of a data set's pictures. `who`: the name of the adaptor, for error messages.
///
/// Errors: input_error if the samples of the data set have another number of elements than the
///         shape.
template <picture_dataset D>
[[nodiscard]] [[gnu::cold]] picture_shape shape_of_pictures(D const& data, std::string const& who) {
  auto const said = data.picture_shape();
  picture_shape const shape{said.channels, said.height, said.width};
  if (data.sequence_length() != 1 || shape.elements() != data.width() || shape.elements() == 0)
    throw input_error({who, ": the data set declares pictures of the shape ", to_text(shape),
                       ", but its samples have the shape ", data.sequence_length(), " x ",
                       data.width(), " features"});
  return shape;
}

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/data/picture_shape.ipp"
#endif
