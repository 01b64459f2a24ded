// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/layer/layer.hpp"
#include "plait/nn/image.hpp"
#include "plait/operation/rows.hpp"

namespace plait::nn {

/// Options of pooling.
struct pool_options {
  std::size_t kernel = 2;   ///< rows and columns of a window
  std::size_t stride = 0;   ///< distance between neighbouring windows; 0: as large as `kernel`
  std::size_t padding = 0;  ///< rows and columns on each side of a map; at most half the kernel
};

namespace detail {

template <std::size_t Kernel, std::size_t Padding>
consteval void check_pool_padding() {
  static_assert(
      2 * Padding <= Kernel,
      "max_pool or average_pool: Padding is more than half of Kernel; set the padding to at most "
      "half of the kernel, so that every window contains at least one element of the image");
}

/// A pooling. `Row`: the operation of operation/rows.hpp that reduces each window.
template <operation::is_row Row, class Image, std::size_t KernelHeight, std::size_t KernelWidth,
          std::size_t Stride, std::size_t Padding>
struct pooled {
  static_assert((check_image<Image>(), true));
  static_assert((check_pool_padding<KernelHeight, Padding>(), true));
  static constexpr plait::ext::window_shape windows =
      windows_of<Image, KernelHeight, KernelWidth, Stride, Padding>();
  using concept_tag = layer_tag;
  using input = Image;
  using output = image<Image::channels, windows.out_height(), windows.out_width()>;
  using by_channels = form<"channels", shard<dim::features>, shard<dim::features>>;
  static constexpr std::size_t units = Image::channels;
  static constexpr double flops_per_row =
      Row::is.flops * double(windows.window()) * double(output::size);
};

template <class Image, std::size_t KernelHeight, std::size_t KernelWidth, std::size_t Stride,
          std::size_t Padding>
struct averaged
    : pooled<operation::average_pool, Image, KernelHeight, KernelWidth, Stride, Padding> {
  using base = pooled<operation::average_pool, Image, KernelHeight, KernelWidth, Stride, Padding>;
  using forms = plait::forms<whole, typename base::by_channels, by_sequence<>,
                             form<"summands", partial, partial>>;

  static void forward(auto& ops, auto const& l) { ops.average_pool(base::windows, l.x, l.y); }
  static void backward_input(auto& ops, auto const& l) {
    ops.average_pool_backward(base::windows, l.dy, l.dx);
  }
};

constexpr std::size_t stride_of(pool_options const& of) {
  return of.stride == 0 ? of.kernel : of.stride;
}

}  // namespace detail

/// The largest element of each window, as PyTorch's MaxPool2d. The gradient of a window is added to
/// the window's largest element or, if several elements are equally large, to the first of them.
///
/// Shapes: x (rows, Image::size); y an image of the same channels with
///         (height + 2 padding - kernel) / stride + 1 rows.
/// Moves:  nothing; channels are cut like features.
///
/// Example (tests/reference/names_in_use_test.cpp max_pool):
///     using halved = plait::nn::max_pool<plait::nn::image<16, 32, 32>>;  // 16 maps of 16 x 16
///     using of_resnet =
///         plait::nn::max_pool<halved::output, {.kernel = 3, .stride = 2, .padding = 1}>;
template <class Image, pool_options Options = pool_options{}>
struct max_pool : detail::pooled<operation::max_pool, Image, Options.kernel, Options.kernel,
                                 detail::stride_of(Options), Options.padding> {
  using base = detail::pooled<operation::max_pool, Image, Options.kernel, Options.kernel,
                              detail::stride_of(Options), Options.padding>;
  using forms = plait::forms<whole, typename base::by_channels, by_sequence<>>;
  using saved = plait::saved<input_slot>;

  static void forward(auto& ops, auto const& l) { ops.max_pool(base::windows, l.x, l.y); }
  static void backward_input(auto& ops, auto const& l) {
    ops.max_pool_backward(base::windows, l.dy, l.saved[input_slot{}], l.dx);
  }
};

/// The mean of each window, as PyTorch's AvgPool2d; padding counts as zeros.
///
/// Shapes: as for max_pool
/// Moves:  nothing; channels are cut like features, and a partial input stays partial.
template <class Image, pool_options Options = pool_options{}>
struct average_pool : detail::averaged<Image, Options.kernel, Options.kernel,
                                       detail::stride_of(Options), Options.padding> {};

/// The mean of each channel.
///
/// Shapes: x (rows, Image::size); y an image of the same channels, 1 x 1.
template <class Image>
struct global_average_pool : detail::averaged<Image, Image::height, Image::width, 1, 0> {};

}  // namespace plait::nn
