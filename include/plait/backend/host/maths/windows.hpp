// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>

#include "plait/backend/window_shape.hpp"
#include "plait/core/bfloat16.hpp"

// The functions that convolutions and pooling need in addition to matrix products.
namespace plait::host_maths {

using plait::ext::places_of_window;
using plait::ext::window_range;
using plait::ext::window_shape;
using plait::ext::windows_of_place;

namespace detail {

// For each window of output row `oy`, calls use(index in the map, output column) for the element of
// the map that is element (ky, kx) of the window, or clear(output column) if that element is
// padding.
template <class Use, class Clear>
void for_row_of_patches(window_shape const& of, std::size_t ky, std::size_t kx, std::size_t oy,
                        Use use, Clear clear) {
  std::size_t const y = oy * of.stride + ky, width = of.out_width();
  bool const is_row = y >= of.padding && y - of.padding < of.height;
  for (std::size_t ox = 0; ox < width; ++ox) {
    std::size_t const x = ox * of.stride + kx;
    if (is_row && x >= of.padding && x - of.padding < of.width)
      use((y - of.padding) * of.width + x - of.padding, ox);
    else clear(ox);
  }
}

}  // namespace detail

/// Copies the windows of `samples` images for rows [first_row, first_row + rows) of the output
/// (im2col). Row (c, ky, kx) of `patches` has element (ky, kx) in channel c of each window, with
/// zeros for padding.
///
/// Shapes: x (samples, channels, height, width);
///         patches (channels, kernel_height, kernel_width, samples, rows, out_width)
template <class T>
[[gnu::noinline]] void gather_patches(window_shape const& of, std::size_t samples,
                                      std::size_t first_row, std::size_t rows, T const* x,
                                      T* patches) {
  std::size_t const width = of.out_width();
  for (std::size_t c = 0; c < of.channels; ++c)
    for (std::size_t ky = 0; ky < of.kernel_height; ++ky)
      for (std::size_t kx = 0; kx < of.kernel_width; ++kx)
        for (std::size_t s = 0; s < samples; ++s) {
          T const* const map = x + (s * of.channels + c) * of.map();
          for (std::size_t r = 0; r < rows; ++r, patches += width) {
            if (of.stride == 1) {  // one contiguous copy, with zeros on both sides
              std::size_t const y = first_row + r + ky;
              bool const is_row = y >= of.padding && y - of.padding < of.height;
              std::size_t const before = std::min(width, of.padding - std::min(of.padding, kx));
              std::size_t const from = kx + before - of.padding;
              std::size_t const there =
                  is_row && from < of.width ? std::min(width - before, of.width - from) : 0;
              std::fill_n(patches, there == 0 ? width : before, T(0));
              if (there == 0) continue;
              std::memcpy(patches + before, map + (y - of.padding) * of.width + from,
                          there * sizeof(T));
              std::fill(patches + before + there, patches + width, T(0));
            } else {
              detail::for_row_of_patches(
                  of, ky, kx, first_row + r,
                  [&](std::size_t at, std::size_t ox) { patches[ox] = map[at]; },
                  [&](std::size_t ox) { patches[ox] = T(0); });
            }
          }
        }
}

/// Adds to each element of x its copies in `patches`, one for each window that contains the element
/// (col2im): the gradient of gather_patches.
///
/// Shapes: as for gather_patches
template <class T>
[[gnu::noinline]] void add_patches(window_shape const& of, std::size_t samples,
                                   std::size_t first_row, std::size_t rows, T const* patches,
                                   T* x) {
  std::size_t const width = of.out_width();
  for (std::size_t c = 0; c < of.channels; ++c)
    for (std::size_t ky = 0; ky < of.kernel_height; ++ky)
      for (std::size_t kx = 0; kx < of.kernel_width; ++kx)
        for (std::size_t s = 0; s < samples; ++s) {
          T* const map = x + (s * of.channels + c) * of.map();
          for (std::size_t r = 0; r < rows; ++r, patches += width)
            detail::for_row_of_patches(
                of, ky, kx, first_row + r,
                [&](std::size_t at, std::size_t ox) {
                  map[at] = static_cast<T>(map[at] + patches[ox]);
                },
                [](std::size_t) {});
        }
}

/// to[b][a] = from[a][b], for blocks of `block` elements.
///
/// Shapes: from (outer, inner, block); to (inner, outer, block)
template <class T>
void exchange_blocks(T const* from, T* to, std::size_t outer, std::size_t inner,
                     std::size_t block) {
  for (std::size_t a = 0; a < outer; ++a)
    for (std::size_t b = 0; b < inner; ++b)
      std::memcpy(to + (b * outer + a) * block, from + (a * inner + b) * block, block * sizeof(T));
}

/// Adds bias[c] to each element of the maps of channel c.
///
/// Shapes: bias (channels); y (samples, channels, map)
template <class T>
[[gnu::noinline]] void add_to_maps(T const* bias, T* y, std::size_t samples, std::size_t channels,
                                   std::size_t map) {
  for (std::size_t s = 0; s < samples; ++s)
    for (std::size_t c = 0; c < channels; ++c)
      for (std::size_t i = 0; i < map; ++i, ++y) *y = static_cast<T>(*y + bias[c]);
}

/// Computes the largest element of each window, ignoring padding; NaN if an element is NaN.
///
/// Shapes: x (samples, channels, height, width); y (samples, channels, out_height, out_width)
template <class T>
[[gnu::noinline]] void max_pool(window_shape const& of, std::size_t samples, T const* x, T* y) {
  using A = accumulate_t<T>;
  for (std::size_t m = 0; m < samples * of.channels; ++m, x += of.map())
    for (std::size_t oy = 0; oy < of.out_height(); ++oy) {
      auto const ys = places_of_window(oy, of.height, of.kernel_height, of.stride, of.padding);
      for (std::size_t ox = 0; ox < of.out_width(); ++ox, ++y) {
        auto const xs = places_of_window(ox, of.width, of.kernel_width, of.stride, of.padding);
        A most = -std::numeric_limits<A>::infinity();
        for (std::size_t i = ys.begin; i < ys.end; ++i)
          for (std::size_t k = xs.begin; k < xs.end; ++k)
            if (A const value = x[i * of.width + k]; value > most || value != value) most = value;
        *y = static_cast<T>(most);
      }
    }
}

/// Computes the gradient of max_pool with respect to its input. The gradient of a window goes to
/// its largest element, or to the first of several equal ones.
///
/// Shapes: dy (samples, channels, out_height, out_width); x, dx (samples, channels, height, width)
template <class T>
[[gnu::noinline]] void max_pool_backward(window_shape const& of, std::size_t samples, T const* dy,
                                         T const* x, T* dx) {
  using A = accumulate_t<T>;
  std::fill_n(dx, samples * of.image(), T(0));
  for (std::size_t m = 0; m < samples * of.channels; ++m, x += of.map(), dx += of.map())
    for (std::size_t oy = 0; oy < of.out_height(); ++oy) {
      auto const ys = places_of_window(oy, of.height, of.kernel_height, of.stride, of.padding);
      for (std::size_t ox = 0; ox < of.out_width(); ++ox, ++dy) {
        auto const xs = places_of_window(ox, of.width, of.kernel_width, of.stride, of.padding);
        std::size_t first = ys.begin * of.width + xs.begin;
        A most = x[first];
        for (std::size_t i = ys.begin; i < ys.end; ++i)
          for (std::size_t k = xs.begin; k < xs.end; ++k)
            if (A const value = x[i * of.width + k];
                most == most && (value > most || value != value)) {
              most = value;
              first = i * of.width + k;
            }
        dx[first] = static_cast<T>(dx[first] + *dy);
      }
    }
}

/// Computes the mean of each window; padding is included as zeros.
///
/// Shapes: as for max_pool
template <class T>
[[gnu::noinline]] void average_pool(window_shape const& of, std::size_t samples, T const* x, T* y) {
  using A = accumulate_t<T>;
  for (std::size_t m = 0; m < samples * of.channels; ++m, x += of.map())
    for (std::size_t oy = 0; oy < of.out_height(); ++oy) {
      auto const ys = places_of_window(oy, of.height, of.kernel_height, of.stride, of.padding);
      for (std::size_t ox = 0; ox < of.out_width(); ++ox, ++y) {
        auto const xs = places_of_window(ox, of.width, of.kernel_width, of.stride, of.padding);
        A sum = 0;
        for (std::size_t i = ys.begin; i < ys.end; ++i)
          for (std::size_t k = xs.begin; k < xs.end; ++k)
            sum += static_cast<A>(x[i * of.width + k]);
        *y = static_cast<T>(sum / static_cast<A>(of.window()));
      }
    }
}

/// Computes the gradient of average_pool with respect to its input.
///
/// Shapes: dy (samples, channels, out_height, out_width); dx (samples, channels, height, width)
template <class T>
[[gnu::noinline]] void average_pool_backward(window_shape const& of, std::size_t samples,
                                             T const* dy, T* dx) {
  using A = accumulate_t<T>;
  std::size_t const rows = of.out_height(), columns = of.out_width();
  for (std::size_t m = 0; m < samples * of.channels; ++m, dy += of.out_map())
    for (std::size_t i = 0; i < of.height; ++i) {
      auto const ys = windows_of_place(i, rows, of.kernel_height, of.stride, of.padding);
      for (std::size_t k = 0; k < of.width; ++k, ++dx) {
        auto const xs = windows_of_place(k, columns, of.kernel_width, of.stride, of.padding);
        A sum = 0;
        for (std::size_t oy = ys.begin; oy < ys.end; ++oy)
          for (std::size_t ox = xs.begin; ox < xs.end; ++ox)
            sum += static_cast<A>(dy[oy * columns + ox]);
        *dx = static_cast<T>(sum / static_cast<A>(of.window()));
      }
    }
}

}  // namespace plait::host_maths
