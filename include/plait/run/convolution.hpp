// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>

#include "plait/backend/matrix.hpp"
#include "plait/backend/window_shape.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/operation/rows.hpp"
#include "plait/run/carry_out.hpp"

namespace plait::execution {

/// Computes the convolution of one rank on any device, with the queue of this device. It copies the
/// windows of the images to the columns of a matrix (im2col), and multiplies this matrix by the
/// weight.
///
/// Shapes: x (samples, in.channels, in.height, in.width); w (out_channels, in.patch() / groups); y
///         (samples, out_channels, in.out_height(), in.out_width()); room: a workspace of at least
///         `patch_block_of(in, out_channels).room()` elements.
template <class Queue>
class convolution {
 public:
  convolution(Queue const& queue, window_shape const& in, std::size_t out_channels,
              std::size_t groups, patch_block const& block)
      : queue_(queue), in_(in), outputs_(out_channels), groups_(groups), block_(block) {}

  /// Computes y = w * x, where * is the convolution.
  template <class T>
  void forward(std::size_t samples, T const* x, T const* w, T* y, T* room) const {
    for_each_piece(samples, [&](piece const& at) {
      auto const patches = patches_of(at, x, room);
      T* const result = at.samples > 1 ? room + block_.patches : y + at.first_result;
      std::size_t const stride = at.samples > 1 ? at.columns : in_.out_map();
      for_each_group([&](std::size_t g) {  // operands (outputs, inputs) (inputs, columns)
        carry_out(queue_, operation::matmul{}, weight(w, g), group(patches, g, inputs()),
                  matrix<T>{result + g * outputs() * stride, outputs(), at.columns, stride},
                  transposes{}, false);
      });
      if (at.samples > 1)
        exchange(static_cast<T const*>(result), y + at.first_result, outputs_, at.samples);
    });
  }

  /// Computes dx, the gradient with respect to x.
  template <class T>
  void backward_input(std::size_t samples, T const* dy, T const* w, T* dx, T* room) const {
    if (!is_direct(1) || block_.samples > 1)
      queue_.fill(static_cast<T>(0), dx, samples * in_.image());
    for_each_piece(samples, [&](piece const& at) {
      auto const gradient = results_of(at, dy, room);
      bool const direct = is_direct(at.samples);
      T* const patches = direct ? dx + at.first_sample * in_.image() : room;
      std::size_t const stride = direct ? in_.map() : at.columns;
      for_each_group([&](std::size_t g) {  // operands (inputs, outputs) (outputs, columns)
        carry_out(queue_, operation::matmul{}, weight(w, g), group(gradient, g, outputs()),
                  matrix<T>{patches + g * inputs() * stride, inputs(), at.columns, stride},
                  transposes{.a = true}, false);
      });
      if (!direct)
        carry_out(queue_, operation::add_patches{},
                  matrix<T const>{patches, in_.patch(), at.columns},
                  matrix<T>{dx + at.first_sample * in_.image(), at.samples, in_.image()}, in_,
                  at.first_row, at.rows);
    });
  }

  /// Adds the gradient with respect to w to dw.
  template <class T, class Sum>
  void backward_weight(std::size_t samples, T const* dy, T const* x, Sum* dw, T* room) const {
    for_each_piece(samples, [&](piece const& at) {
      auto const patches = patches_of(at, x, room);
      auto const gradient = results_of(at, dy, room);
      for_each_group([&](std::size_t g) {  // operands (outputs, columns) (columns, inputs)
        carry_out(queue_, operation::matmul{}, group(gradient, g, outputs()),
                  group(patches, g, inputs()),
                  matrix<Sum>{dw + g * outputs() * inputs(), outputs(), inputs()},
                  transposes{.b = true}, true);
      });
    });
  }

 private:
  /// The part of the output that one matrix product computes: some samples, or some rows of one
  /// sample.
  struct piece {
    std::size_t first_sample, samples;
    std::size_t first_row, rows;  ///< range of rows of each output map
    std::size_t columns;          ///< number of columns of the product
    std::size_t first_result;     ///< index in y of the first element that the product computes
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

  /// Returns the weight of a group, a matrix of shape (outputs(), inputs()).
  template <class T>
  [[nodiscard]] matrix<T const> weight(T const* w, std::size_t g) const {
    return {w + g * outputs() * inputs(), outputs(), inputs()};
  }
  /// Returns the rows that belong to group `g`, from a matrix that has the rows of all groups.
  template <class T>
  static matrix<T const> group(matrix<T const> const& all, std::size_t g, std::size_t rows) {
    return {all.data + g * rows * all.stride, rows, all.columns, all.stride};
  }
  /// Transposes `from`, of shape (outer, inner, map), to `to`, of shape (inner, outer, map), where
  /// map is the size of an output map.
  template <class T>
  void exchange(T const* from, T* to, std::size_t outer, std::size_t inner) const {
    std::size_t const map = in_.out_map();
    carry_out(queue_, operation::exchange_blocks{}, matrix<T const>{from, outer, inner * map},
              matrix<T>{to, inner, outer * map}, map);
  }

  /// Returns the windows of x that a piece reads, as a matrix of shape (in_.patch(), at.columns).
  /// If windows are single elements and the piece has one sample, nothing is copied: the function
  /// returns x itself.
  template <class T>
  matrix<T const> patches_of(piece const& at, T const* x, T* room) const {
    T const* const images = x + at.first_sample * in_.image();
    if (is_direct(at.samples)) return {images, in_.patch(), at.columns, in_.map()};
    carry_out(queue_, operation::gather_patches{}, matrix<T const>{images, at.samples, in_.image()},
              matrix<T>{room, in_.patch(), at.columns}, in_, at.first_row, at.rows);
    return {room, in_.patch(), at.columns};
  }
  /// Returns the part of dy that belongs to a piece, as a matrix of shape (outputs_, at.columns).
  template <class T>
  matrix<T const> results_of(piece const& at, T const* dy, T* room) const {
    if (at.samples == 1) return {dy + at.first_result, outputs_, at.columns, in_.out_map()};
    T* const together = room + block_.patches;
    exchange(dy + at.first_result, together, at.samples, outputs_);
    return {together, outputs_, at.columns};
  }

  Queue const& queue_;
  window_shape in_;
  std::size_t outputs_, groups_;
  patch_block block_;
};

}  // namespace plait::execution
