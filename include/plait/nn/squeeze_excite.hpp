// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/formula/layer.hpp"
#include "plait/layer/layer.hpp"
#include "plait/nn/image.hpp"
#include "plait/tensor/functions.hpp"

namespace plait::nn {

/// Squeeze and excitation: scales each channel of an image by a number that depends on the means of
/// all channels, as torchvision's SqueezeExcitation, with its parameter names.
///
/// `Activation` and `Gate` are the functions after the two products, such as functions::silu.
/// Shapes: x, y (rows, Image::size); fc1.weight (Squeezed, channels), in files (Squeezed, channels,
///         1, 1); fc2.weight (channels, Squeezed), in files with 1, 1, too.
/// Moves:  nothing; on tensor ranks each rank does all of the work, which is small next to a
///         convolution's: a function reads every gate, so their sums cannot be partial.
/// Source: Hu, Shen, Sun, "Squeeze-and-excitation networks", arXiv 1709.01507.
///
/// Example (tests/reference/names_in_use_test.cpp squeeze_excite):
///     using of_efficientnet =
///         plait::nn::squeeze_excite<plait::nn::image<96, 16, 16>, 4, plait::functions::silu>;
template <class Image, std::size_t Squeezed, class Activation = functions::relu,
          class Gate = functions::sigmoid>
struct squeeze_excite {
  static_assert((detail::check_image<Image>(), true));
  static_assert(Squeezed > 0,
                "squeeze_excite<Image, Squeezed>: Squeezed is 0; write the number of hidden "
                "features, such as a quarter of the channels");
  static constexpr std::size_t channels = Image::channels;
  template <ext::name Label, std::size_t Out, std::size_t In>
  using matrix = parameter<Label, extents<Out, In>, normal(0.02), 0, file_shape<Out, In, 1, 1>>;
  static constexpr matrix<"fc1.weight", Squeezed, channels> down{};
  static constexpr parameter<"fc1.bias", extents<Squeezed>> down_bias{};
  static constexpr matrix<"fc2.weight", channels, Squeezed> up{};
  static constexpr parameter<"fc2.bias", extents<channels>> up_bias{};
  using input = Image;
  using output = Image;

  static constexpr auto formula(auto x) {
    using plait::formula::heads, plait::formula::side_by_side, plait::formula::transposed;
    using plait::formula::map, plait::formula::mean;
    auto const maps = heads<channels>(x);
    auto const means = side_by_side(mean(maps));
    auto const squeezed = map(Activation{}, matmul(means, transposed(down)) + down_bias);
    auto const gates = map(Gate{}, matmul(squeezed, transposed(up)) + up_bias);
    return side_by_side(maps * heads<channels>(gates));
  }
};

}  // namespace plait::nn
