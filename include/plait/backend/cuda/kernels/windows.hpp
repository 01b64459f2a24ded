// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/backend/cuda/kernels/launch.hpp"
#include "plait/backend/window_shape.hpp"

// Convolution windows and pooling. A thread computes one element of the patches (the im2col
// matrix), of a map or of a gradient, and adds its terms in a fixed order.

namespace plait::cuda_kernels {

using plait::ext::places_of_window;
using plait::ext::window_range;
using plait::ext::window_shape;
using plait::ext::windows_of_place;

/// The windows that the patches contain: the windows from which rows [first, first + count) of the
/// output of `samples` images are computed.
struct window_rows {
  std::size_t samples, first, count;
};

namespace detail {

/// Launches a kernel with one thread for each of n elements. The kernel gets the arguments, then n.
template <class Launch, class Kernel, class... Arguments>
void launch_elements(Launch launch, Kernel kernel, std::size_t n, Arguments... arguments) {
  if (n > 0)
    launch(kernel, launch_shape{blocks_for(n, block_threads), block_threads}, arguments..., n);
}

/// Calls use(index in the map) for each element of window (oy, ox), row by row; padding is skipped.
template <class Use>
__device__ __forceinline__ void for_window(window_shape const& of, std::size_t oy, std::size_t ox,
                                           Use use) {
  auto const ys = places_of_window(oy, of.height, of.kernel_height, of.stride, of.padding);
  auto const xs = places_of_window(ox, of.width, of.kernel_width, of.stride, of.padding);
  for (std::size_t y = ys.begin; y < ys.end; ++y)
    for (std::size_t x = xs.begin; x < xs.end; ++x) use(y * of.width + x);
}

/// Calls use(oy, ox) for each window that contains element `at` of a map, in order.
template <class Use>
__device__ __forceinline__ void for_windows_of(window_shape const& of, std::size_t at, Use use) {
  auto const ys =
      windows_of_place(at / of.width, of.out_height(), of.kernel_height, of.stride, of.padding);
  auto const xs =
      windows_of_place(at % of.width, of.out_width(), of.kernel_width, of.stride, of.padding);
  for (std::size_t oy = ys.begin; oy < ys.end; ++oy)
    for (std::size_t ox = xs.begin; ox < xs.end; ++ox) use(oy, ox);
}

/// Returns the index of the first largest element of a window, or of its first NaN.
template <class T>
__device__ __forceinline__ std::size_t largest_of_window(window_shape const& of, T const* map,
                                                         std::size_t oy, std::size_t ox) {
  using A = accumulate_t<T>;
  std::size_t found = of.map();
  A most = 0;
  for_window(of, oy, ox, [&](std::size_t at) {
    A const value = static_cast<A>(map[at]);
    bool const is_more = value > most || (value != value && most == most);
    if (found != of.map() && !is_more) return;
    found = at;
    most = value;
  });
  return found;
}

}  // namespace detail

template <class T>
__global__ void gather_patches_kernel(window_shape of, window_rows rows, T const* x, T* patches,
                                      std::size_t n) {
  std::size_t const width = of.out_width(), columns = rows.samples * rows.count * width;
  for_each_pack<1>({0, n}, [&](std::size_t i) {
    std::size_t const row = i / columns, column = i % columns;
    std::size_t const c = row / of.window(), in_window = row % of.window();
    std::size_t const s = column / (rows.count * width);
    std::size_t const y =
        (rows.first + column / width % rows.count) * of.stride + in_window / of.kernel_width;
    std::size_t const x_at = column % width * of.stride + in_window % of.kernel_width;
    bool const is_there = y >= of.padding && y - of.padding < of.height && x_at >= of.padding &&
                          x_at - of.padding < of.width;
    patches[i] =
        is_there
            ? x[s * of.image() + c * of.map() + (y - of.padding) * of.width + (x_at - of.padding)]
            : static_cast<T>(0);
  });
}

/// Writes each window of the images as a column of `patches`, with zeros for the padding (im2col).
///
/// Shapes: as in host_maths::gather_patches
template <launcher Launch, class T>
void gather_patches(Launch launch, window_shape const& of, std::size_t samples,
                    std::size_t first_row, std::size_t rows, T const* x, T* patches) {
  detail::launch_elements(launch, gather_patches_kernel<T>,
                          of.patch() * samples * rows * of.out_width(), of,
                          window_rows{samples, first_row, rows}, x, patches);
}

template <class T>
__global__ void add_patches_kernel(window_shape of, window_rows rows, T const* patches, T* x,
                                   std::size_t n) {
  using A = accumulate_t<T>;
  std::size_t const width = of.out_width(), columns = rows.samples * rows.count * width;
  for_each_pack<1>({0, n}, [&](std::size_t i) {
    std::size_t const s = i / of.image(), c = i % of.image() / of.map(), at = i % of.map();
    A sum = static_cast<A>(x[i]);
    detail::for_windows_of(of, at, [&](std::size_t oy, std::size_t ox) {
      if (oy < rows.first || oy >= rows.first + rows.count) return;
      std::size_t const ky = at / of.width + of.padding - oy * of.stride;
      std::size_t const kx = at % of.width + of.padding - ox * of.stride;
      std::size_t const row = c * of.window() + ky * of.kernel_width + kx;
      sum +=
          static_cast<A>(patches[row * columns + (s * rows.count + oy - rows.first) * width + ox]);
    });
    x[i] = static_cast<T>(sum);
  });
}

/// Adds to each element of x its values in all windows that contain it, the gradient of
/// gather_patches.
template <launcher Launch, class T>
void add_patches(Launch launch, window_shape const& of, std::size_t samples, std::size_t first_row,
                 std::size_t rows, T const* patches, T* x) {
  detail::launch_elements(launch, add_patches_kernel<T>, samples * of.image(), of,
                          window_rows{samples, first_row, rows}, patches, x);
}

template <class T>
__global__ void exchange_blocks_kernel(T const* from, T* to, std::size_t outer, std::size_t inner,
                                       std::size_t block, std::size_t n) {
  for_each_pack<1>({0, n}, [&](std::size_t i) {
    std::size_t const b = i / block / outer, a = i / block % outer;
    to[i] = from[(a * inner + b) * block + i % block];
  });
}

/// to[b][a] = from[a][b], where an element of the two matrices is a block of `block` numbers.
template <launcher Launch, class T>
void exchange_blocks(Launch launch, T const* from, T* to, std::size_t outer, std::size_t inner,
                     std::size_t block) {
  detail::launch_elements(launch, exchange_blocks_kernel<T>, outer * inner * block, from, to, outer,
                          inner, block);
}

template <class T>
__global__ void add_to_maps_kernel(T const* bias, T* y, std::size_t channels, std::size_t map,
                                   std::size_t n) {
  using A = accumulate_t<T>;
  for_each_pack<1>({0, n}, [&](std::size_t i) {
    y[i] = static_cast<T>(static_cast<A>(y[i]) + static_cast<A>(bias[i / map % channels]));
  });
}

/// Adds the bias of each channel to all elements of the channel's maps.
template <launcher Launch, class T>
void add_to_maps(Launch launch, T const* bias, T* y, std::size_t samples, std::size_t channels,
                 std::size_t map) {
  detail::launch_elements(launch, add_to_maps_kernel<T>, samples * channels * map, bias, y,
                          channels, map);
}

template <class T>
__global__ void max_pool_kernel(window_shape of, T const* x, T* y, std::size_t n) {
  for_each_pack<1>({0, n}, [&](std::size_t i) {
    T const* const map = x + i / of.out_map() * of.map();
    std::size_t const at = i % of.out_map();
    y[i] = map[detail::largest_of_window(of, map, at / of.out_width(), at % of.out_width())];
  });
}

/// Computes the largest element of each window; NaN if the window contains a NaN.
template <launcher Launch, class T>
void max_pool(Launch launch, window_shape const& of, std::size_t samples, T const* x, T* y) {
  detail::launch_elements(launch, max_pool_kernel<T>, samples * of.channels * of.out_map(), of, x,
                          y);
}

template <class T>
__global__ void max_pool_backward_kernel(window_shape of, T const* dy, T const* x, T* dx,
                                         std::size_t n) {
  using A = accumulate_t<T>;
  for_each_pack<1>({0, n}, [&](std::size_t i) {
    std::size_t const number = i / of.map(), at = i % of.map();
    T const* const map = x + number * of.map();
    T const* const gradient = dy + number * of.out_map();
    A sum = 0;
    detail::for_windows_of(of, at, [&](std::size_t oy, std::size_t ox) {
      if (detail::largest_of_window(of, map, oy, ox) == at)
        sum += static_cast<A>(gradient[oy * of.out_width() + ox]);
    });
    dx[i] = static_cast<T>(sum);
  });
}

/// Computes the gradient of max_pool with respect to x. If a window has several largest elements,
/// the first gets the gradient.
template <launcher Launch, class T>
void max_pool_backward(Launch launch, window_shape const& of, std::size_t samples, T const* dy,
                       T const* x, T* dx) {
  detail::launch_elements(launch, max_pool_backward_kernel<T>, samples * of.image(), of, dy, x, dx);
}

template <class T>
__global__ void average_pool_kernel(window_shape of, T const* x, T* y, std::size_t n) {
  using A = accumulate_t<T>;
  for_each_pack<1>({0, n}, [&](std::size_t i) {
    T const* const map = x + i / of.out_map() * of.map();
    std::size_t const at = i % of.out_map();
    A sum = 0;
    detail::for_window(of, at / of.out_width(), at % of.out_width(),
                       [&](std::size_t place) { sum += static_cast<A>(map[place]); });
    y[i] = static_cast<T>(sum / static_cast<A>(of.window()));
  });
}

/// Computes the mean of each window; padding counts as zeros.
template <launcher Launch, class T>
void average_pool(Launch launch, window_shape const& of, std::size_t samples, T const* x, T* y) {
  detail::launch_elements(launch, average_pool_kernel<T>, samples * of.channels * of.out_map(), of,
                          x, y);
}

template <class T>
__global__ void average_pool_backward_kernel(window_shape of, T const* dy, T* dx, std::size_t n) {
  using A = accumulate_t<T>;
  for_each_pack<1>({0, n}, [&](std::size_t i) {
    T const* const gradient = dy + i / of.map() * of.out_map();
    A sum = 0;
    detail::for_windows_of(of, i % of.map(), [&](std::size_t oy, std::size_t ox) {
      sum += static_cast<A>(gradient[oy * of.out_width() + ox]);
    });
    dx[i] = static_cast<T>(sum / static_cast<A>(of.window()));
  });
}

/// Computes the gradient of average_pool with respect to x.
template <launcher Launch, class T>
void average_pool_backward(Launch launch, window_shape const& of, std::size_t samples, T const* dy,
                           T* dx) {
  detail::launch_elements(launch, average_pool_backward_kernel<T>, samples * of.image(), of, dy,
                          dx);
}

}  // namespace plait::cuda_kernels
