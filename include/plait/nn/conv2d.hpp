// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "plait/backend/window_shape.hpp"
#include "plait/layer/layer.hpp"
#include "plait/nn/image.hpp"
#include "plait/operation/rows.hpp"

namespace plait::nn {

/// Options of a convolution.
struct conv_options {
  std::size_t kernel = 3;   ///< rows and columns of a window
  std::size_t stride = 1;   ///< distance between neighbouring windows
  std::size_t padding = 0;  ///< zeros on each side of a map
  /// The number of groups of input and output channels; each group is convolved separately.
  std::size_t groups = 1;
  bool bias = true;
  /// The weight starts as normal random numbers of this standard deviation. 0 means sqrt(2 /
  /// (number of inputs of one output)), after He et al., "Delving deep into rectifiers", 2015. The
  /// bias starts as zeros.
  initializer weight = normal(0);
};

namespace detail {

/// Returns sqrt(2 / inputs) in units of 1e-9.
constexpr std::int64_t he_deviation(std::size_t inputs) {
  double const square = 2.0 / static_cast<double>(inputs);
  double root = 1;
  for (int i = 0; i < 60; ++i) root = (root + square / root) / 2;
  return static_cast<std::int64_t>(root * 1e9 + 0.5);
}

template <std::size_t Channels, std::size_t Outputs, std::size_t Groups>
consteval void check_groups() {
  static_assert(Groups > 0 && Channels % Groups == 0 && Outputs % Groups == 0,
                "conv2d<Image, Outputs, {.groups}>: Groups does not divide Channels, the number of "
                "input channels, or Outputs, the number of output channels; write a number of "
                "groups that divides both");
}

template <class Image, std::size_t Outputs, conv_options Options>
struct conv_parameters {
  static_assert((check_image<Image>(), true));
  static_assert((check_groups<Image::channels, Outputs, Options.groups>(), true));
  static constexpr std::size_t kernel = Options.kernel, groups = Options.groups;
  static constexpr plait::ext::window_shape windows =
      windows_of<Image, kernel, kernel, Options.stride, Options.padding>();
  static constexpr std::size_t inputs = Image::channels / groups * kernel * kernel;
  static constexpr initializer start =
      Options.weight.how != initializer::kind::normal || Options.weight.nano != 0
          ? Options.weight
          : initializer{initializer::kind::normal, he_deviation(inputs)};
  using weight = parameter<"weight", extents<Outputs, inputs>, start, 0,
                           file_shape<Outputs, Image::channels / groups, kernel, kernel>>;
  using bias = parameter<"bias", extents<Outputs>>;
  using parameters =
      std::conditional_t<Options.bias, parameter_list<weight, bias>, parameter_list<weight>>;
  using by_outputs =
      std::conditional_t<Options.bias, column<split<weight, 0>, split<bias, 0>, units_of<Outputs>>,
                         column<split<weight, 0>, units_of<Outputs>>>;
  using by_inputs =
      std::conditional_t<Options.bias,
                         row_split<split<weight, 1>, once<bias>, units_of<Image::channels>>,
                         row_split<split<weight, 1>, units_of<Image::channels>>>;
  using by_groups = std::conditional_t<Options.bias,
                                       form<"groups", shard<dim::features>, shard<dim::features>,
                                            split<weight, 0>, split<bias, 0>, units_of<groups>>,
                                       form<"groups", shard<dim::features>, shard<dim::features>,
                                            split<weight, 0>, units_of<groups>>>;
  using forms =
      std::conditional_t<groups == 1, plait::forms<whole, by_outputs, by_inputs, by_sequence<>>,
                         plait::forms<whole, by_groups, by_sequence<>>>;
};

}  // namespace detail

/// y = w * x + b, as PyTorch's Conv2d. Each element of an output channel is the weighted sum of the
/// elements in one window of the input channels of its group.
///
/// Shapes: x (rows, Image::size); w (Outputs, Image::channels / groups * kernel * kernel), in files
///         (Outputs, channels / groups, kernel, kernel); b (Outputs); y an image of Outputs
///         channels with (height + 2 padding - kernel) / stride + 1 rows.
/// Moves:  nothing within the layer. In form "column" a rank has the whole input and a block of
///         output channels. In form "row" it has a block of input channels and a partial output, to
///         which one rank adds b. In form "groups" it has blocks of input and output channels.
/// Cost:   windows are copied as patches (im2col) into a scratch of at most patch_block_of(windows,
///         Outputs).room() numbers, for a batch of any size. A 1 x 1 convolution of large maps,
///         with stride 1 and without padding, needs no scratch.
///
/// Example (tests/reference/names_in_use_test.cpp conv2d):
///     using first =
///         plait::nn::conv2d<plait::nn::image<3, 32, 32>, 16, {.kernel = 3, .padding = 1}>;
///     using second = plait::nn::conv2d<first::output, 32, {.stride = 2, .bias = false}>;
template <class Image, std::size_t Outputs, conv_options Options = conv_options{}>
struct conv2d : detail::conv_parameters<Image, Outputs, Options> {
  using concept_tag = layer_tag;
  using base = detail::conv_parameters<Image, Outputs, Options>;
  using weight = typename base::weight;
  using bias = typename base::bias;
  using input = Image;
  using output = image<Outputs, base::windows.out_height(), base::windows.out_width()>;
  using saved = plait::saved<input_slot>;
  static constexpr std::size_t room = plait::ext::patch_block_of(base::windows, Outputs).room();
  using patches = slot<"patches", 0, room>;
  using scratch = plait::scratch<patches>;
  static constexpr double flops_per_row =
      operation::convolve::is.flops * double(base::inputs) * double(output::size);

  static void forward(auto& ops, auto const& l) {
    ops.convolve(base::windows, Options.groups, l.x, l.p[weight{}], l.y, l.scratch[patches{}]);
    if constexpr (Options.bias) ops.add_to_maps(l.p[bias{}], l.y, output::map);
  }
  static void backward_input(auto& ops, auto const& l) {
    ops.convolve_backward_input(base::windows, Options.groups, l.dy, l.p[weight{}], l.dx,
                                l.scratch[patches{}]);
  }
  static void backward_parameters(auto& ops, auto const& l) {
    ops.convolve_backward_weight(base::windows, Options.groups, l.dy, l.saved[input_slot{}],
                                 l.dp[weight{}], l.scratch[patches{}]);
    if constexpr (Options.bias) ops.accumulate_map_sums(l.dy, l.dp[bias{}], output::map);
  }
};

}  // namespace plait::nn
