// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>

#include "plait/backend/window_shape.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::execution {

/// One convolution as one rank computes it, on every device: patches, and matrix products of a
/// device's queue with the weight.
///
/// Shapes: x (samples, in.channels, in.height, in.width); w (out_channels, in.patch() / groups);
///         y (samples, out_channels, in.out_height(), in.out_width()); room: at least
///         `patch_block_of(in, out_channels).room()` elements.
template <class Queue>
class convolution {
 public:
  convolution(Queue const& queue, window_shape const& in, std::size_t out_channels,
              std::size_t groups, patch_block const& block)
      : queue_(queue), in_(in), outputs_(out_channels), groups_(groups), block_(block) {}

  /// y = w * x.
  template <class T>
  void forward(std::size_t samples, T const* x, T const* w, T* y, T* room) const {
    for_each_piece(samples, [&](piece const& at) {
      auto const patches = patches_of(at, x, room);
      T* const result = at.samples > 1 ? room + block_.patches : y + at.first_result;
      std::size_t const stride = at.samples > 1 ? at.columns : in_.out_map();
      for_each_group([&](std::size_t g) {  // (outputs, inputs) (inputs, columns)
        queue_.matmul(false, false, outputs(), at.columns, inputs(), w + g * outputs() * inputs(),
                      inputs(), patches.data + g * inputs() * patches.stride, patches.stride, false,
                      result + g * outputs() * stride, stride);
      });
      if (at.samples > 1)
        queue_.exchange_blocks(static_cast<T const*>(result), y + at.first_result, outputs_,
                               at.samples, in_.out_map());
    });
  }

  /// dx = the gradient by x.
  template <class T>
  void backward_input(std::size_t samples, T const* dy, T const* w, T* dx, T* room) const {
    if (!is_direct(1) || block_.samples > 1)
      queue_.fill(static_cast<T>(0), dx, samples * in_.image());
    for_each_piece(samples, [&](piece const& at) {
      auto const gradient = results_of(at, dy, room);
      bool const direct = is_direct(at.samples);
      T* const patches = direct ? dx + at.first_sample * in_.image() : room;
      std::size_t const stride = direct ? in_.map() : at.columns;
      for_each_group([&](std::size_t g) {  // (inputs, outputs) (outputs, columns)
        queue_.matmul(true, false, inputs(), at.columns, outputs(), w + g * outputs() * inputs(),
                      inputs(), gradient.data + g * outputs() * gradient.stride, gradient.stride,
                      false, patches + g * inputs() * stride, stride);
      });
      if (!direct)
        queue_.add_patches(in_, at.samples, at.first_row, at.rows, static_cast<T const*>(patches),
                           dx + at.first_sample * in_.image());
    });
  }

  /// dw += the gradient by w.
  template <class T, class Sum>
  void backward_weight(std::size_t samples, T const* dy, T const* x, Sum* dw, T* room) const {
    for_each_piece(samples, [&](piece const& at) {
      auto const patches = patches_of(at, x, room);
      auto const gradient = results_of(at, dy, room);
      for_each_group([&](std::size_t g) {  // (outputs, columns) (columns, inputs)
        queue_.matmul(false, true, outputs(), inputs(), at.columns,
                      gradient.data + g * outputs() * gradient.stride, gradient.stride,
                      patches.data + g * inputs() * patches.stride, patches.stride, true,
                      dw + g * outputs() * inputs(), inputs());
      });
    });
  }

 private:
  /// What is multiplied at a time.
  struct piece {
    std::size_t first_sample, samples;
    std::size_t first_row, rows;  ///< of the output's maps
    std::size_t columns;          ///< of the product
    std::size_t first_result;     ///< where it begins in y
  };
  template <class T>
  struct matrix {
    T const* data;
    std::size_t stride;
  };

  [[nodiscard]] std::size_t outputs() const { return outputs_ / groups_; }
  [[nodiscard]] std::size_t inputs() const { return in_.patch() / groups_; }
  [[nodiscard]] bool is_direct(std::size_t samples) const {
    return samples == 1 && in_.is_pointwise();
  }

  void for_each_piece(std::size_t samples, auto use) const {
    std::size_t const width = in_.out_width(), height = in_.out_height();
    for (std::size_t s = 0; s < samples; s += block_.samples)
      for (std::size_t row = 0; row < height; row += block_.rows) {
        std::size_t const count = std::min(block_.samples, samples - s);
        std::size_t const rows = std::min(block_.rows, height - row);
        use(piece{s, count, row, rows, count * rows * width,
                  s * outputs_ * in_.out_map() + row * width});
      }
  }
  void for_each_group(auto use) const {
    for (std::size_t g = 0; g < groups_; ++g) use(g);
  }

  /// The windows of a piece, (in.patch(), columns); x itself where they are its elements.
  template <class T>
  matrix<T> patches_of(piece const& at, T const* x, T* room) const {
    T const* const images = x + at.first_sample * in_.image();
    if (is_direct(at.samples)) return {images, in_.map()};
    queue_.gather_patches(in_, at.samples, at.first_row, at.rows, images, room);
    return {room, at.columns};
  }
  /// The gradient of a piece's results, (outputs, columns).
  template <class T>
  matrix<T> results_of(piece const& at, T const* dy, T* room) const {
    if (at.samples == 1) return {dy + at.first_result, in_.out_map()};
    T* const together = room + block_.patches;
    queue_.exchange_blocks(dy + at.first_result, together, at.samples, outputs_, in_.out_map());
    return {together, at.columns};
  }

  Queue const& queue_;
  window_shape in_;
  std::size_t outputs_, groups_;
  patch_block block_;
};

}  // namespace plait::execution
