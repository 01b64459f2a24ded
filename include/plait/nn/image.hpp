// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/backend/window_shape.hpp"
#include "plait/layer/layer.hpp"

namespace plait::nn {

/// Rows that are images, one for each sample: `Channels` maps of Height x Width features, one after
/// another (NCHW, as in PyTorch).
///
/// If ranks cut the features of an image, they cut its channels. A layer on images takes an image
/// type as template argument and has an image type as `L::output`, so that the compiler computes
/// all sizes. `size` is the number of features, for layers that take rows.
template <std::size_t Channels, std::size_t Height, std::size_t Width>
struct image {
  static_assert(Channels > 0 && Height > 0 && Width > 0,
                "image<Channels, Height, Width>: one of the three numbers is 0; set them to the "
                "number of maps, and to the rows and columns of each map");
  static constexpr std::size_t channels = Channels, height = Height, width = Width;
  static constexpr std::size_t map = Height * Width, size = Channels * map;
  static constexpr ext::value_info info{ext::value_kind::features, size, 0, Channels, Height};
};

namespace detail {

template <class Image>
inline constexpr bool is_image = false;
template <std::size_t Channels, std::size_t Height, std::size_t Width>
inline constexpr bool is_image<image<Channels, Height, Width>> = true;

template <class Image>
consteval void check_image() {
  static_assert(
      is_image<Image>,
      "this layer reads images, but its first template argument is not an image; write "
      "plait::nn::image<Channels, Height, Width>, or L::output where L is the preceding layer");
}

// Kernel, Length and Padding are template arguments, so that every compiler prints their values
// next to the message.
template <std::size_t Kernel, std::size_t Length, std::size_t Padding>
consteval void check_kernel_fits() {
  static_assert(Kernel > 0 && Kernel <= Length + 2 * Padding,
                "conv2d or pooling: the kernel has Kernel rows or columns, but the image has only "
                "Length, and Padding more on each side; use a kernel from 1 to Length + 2 Padding");
}
template <std::size_t Stride>
consteval void check_stride() {
  static_assert(Stride > 0,
                "conv2d or pooling: the stride is 0, so all windows would be the same; set the "
                "stride to at least 1");
}

/// Returns the windows that a convolution or pooling layer has on an image. Fails to compile if the
/// layer's kernel, stride or padding does not fit the image.
template <class Image, std::size_t KernelHeight, std::size_t KernelWidth, std::size_t Stride,
          std::size_t Padding>
consteval plait::ext::window_shape windows_of() {
  check_kernel_fits<KernelHeight, Image::height, Padding>();
  check_kernel_fits<KernelWidth, Image::width, Padding>();
  check_stride<Stride>();
  if constexpr (Stride == 0 || KernelHeight == 0 || KernelHeight > Image::height + 2 * Padding ||
                KernelWidth == 0 || KernelWidth > Image::width + 2 * Padding)
    return {};
  else
    return {Image::channels, Image::height, Image::width, KernelHeight,
            KernelWidth,     Stride,        Padding};
}

}  // namespace detail

}  // namespace plait::nn
