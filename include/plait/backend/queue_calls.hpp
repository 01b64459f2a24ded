// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/backend/arguments.hpp"
#include "plait/backend/matrix.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/rounded_block.hpp"
#include "plait/operation/rows.hpp"

namespace plait::ext {

/// A base class of queues with a named function for each operation that steps call outside of
/// layers. Each function calls run() of the derived queue.
///
/// Pointers are to the device's memory. Operands must not overlap a result, except if the
/// operation's entry in operation/rows.hpp contains "in place".
template <class Queue>
class queue_calls {
 public:
  /// Copies bytes within the device's memory.
  void copy_bytes(void const* from, void* to, std::size_t bytes) const {
    if (bytes == 0 || from == to) return;
    self().run(operation::copy_bytes{},
               matrix<std::byte const>{static_cast<std::byte const*>(from), 1, bytes},
               matrix<std::byte>{static_cast<std::byte*>(to), 1, bytes});
  }
  template <class T>
  void fill(T value, T* y, std::size_t count) const {
    self().run(operation::fill{}, matrix<T>{y, 1, count}, value);
  }
  template <class T>
  void add(T const* a, T const* b, T* out, std::size_t count) const {
    self().run(operation::add{}, matrix<T const>{a, 1, count}, matrix<T const>{b, 1, count},
               matrix<T>{out, 1, count});
  }
  template <class T>
  void add_and_clear(T* sum, T* x, std::size_t count) const {
    self().run(operation::add_and_clear{}, matrix<T>{sum, 1, count}, matrix<T>{x, 1, count});
  }
  template <class T>
  void swap(T* a, T* b, std::size_t count) const {
    self().run(operation::swap{}, matrix<T>{a, 1, count}, matrix<T>{b, 1, count});
  }
  template <class From, class To>
  void convert(From const* from, To* to, std::size_t count) const {
    self().run(operation::convert{}, matrix<From const>{from, 1, count}, matrix<To>{to, 1, count});
  }
  /// Copies `count` blocks of `block` elements each; the strides are the distances, in elements,
  /// from the beginning of one block to the next.
  template <class T>
  void copy_blocks(T const* from, std::size_t from_stride, T* to, std::size_t to_stride,
                   std::size_t count, std::size_t block) const {
    self().run(operation::copy_blocks{}, matrix<T const>{from, count, block, from_stride},
               matrix<T>{to, count, block, to_stride});
  }
  /// Rounds `count` blocks of rounded_elements numbers each. Queues need this function, and the two
  /// functions below, only for plans whose gradients are `compressed`.
  template <class T, class Of>
  void round_blocks(T const* from, rounded_block<Of>* to, std::size_t count) const {
    self().run(operation::round_blocks{}, matrix<T const>{from, count, rounded_elements},
               matrix<rounded_block<Of>>{to, count, 1});
  }
  template <class T, class Of>
  void widen_blocks(rounded_block<Of> const* from, T* to, std::size_t count) const {
    self().run(operation::widen_blocks{}, matrix<rounded_block<Of> const>{from, count, 1},
               matrix<T>{to, count, rounded_elements});
  }
  template <class T, class Of>
  void add_blocks(rounded_block<Of> const* from, T* sum, std::size_t count) const {
    self().run(operation::add_blocks{}, matrix<rounded_block<Of> const>{from, count, 1},
               matrix<T>{sum, count, rounded_elements});
  }
  template <class T>
  void add_row(T const* row, T* y, std::size_t rows, std::size_t columns) const {
    self().run(operation::add_row{}, matrix<T const>{row, 1, columns}, matrix<T>{y, rows, columns});
  }
  template <class T, class Sum>
  void accumulate_column_sums(T const* dy, Sum* sums, std::size_t rows, std::size_t columns) const {
    self().run(operation::accumulate_column_sums{}, matrix<T const>{dy, rows, columns},
               matrix<Sum>{sums, 1, columns});
  }
  /// average = decay * average + (1 - decay) * x, for each element; does nothing if `*scale` is
  /// NaN, which means that the step is skipped.
  template <class T>
  void average(T const* x, T* average, std::size_t count, double decay, double const* scale) const {
    self().run(operation::average{}, matrix<double const>{scale, 1, 1},
               matrix<T const>{x, 1, count}, matrix<T>{average, 1, count}, decay);
  }
  /// For each of `range_count` ranges of x, out[range.index] = the sum of the squares of its
  /// elements.
  template <class T>
  void sums_of_squares(T const* x, squares_range const* ranges, int range_count,
                       double* out) const {
    self().run(operation::sums_of_squares{}, x,
               matrix<squares_range const>{ranges, 1, std::size_t(range_count)}, out);
  }
  /// *out = number / *count, or 0 if *count is 0.
  void divide(double number, double const* count, double* out) const {
    self().run(operation::divide{}, matrix<double const>{count, 1, 1}, matrix<double>{out, 1, 1},
               number);
  }
  /// *norm = the square root of the sum of `squares`, which are added in their order. *factor = the
  /// number, at most 1, by which a vector of this norm must be multiplied so that its norm is at
  /// most `limit`; NaN if the norm is not finite.
  void clip(double const* squares, std::size_t count, double limit, double* norm,
            double* factor) const {
    self().run(operation::clip{}, matrix<double const>{squares, 1, count},
               matrix<double>{norm, 1, 1}, matrix<double>{factor, 1, 1}, limit);
  }
  /// Sets *factor to NaN if *loss or *norm is not finite.
  void check_finite(double const* loss, double const* norm, double* factor) const {
    self().run(operation::check_finite{}, matrix<double const>{loss, 1, 1},
               matrix<double const>{norm, 1, 1}, matrix<double>{factor, 1, 1});
  }
  /// Updates the parameters of an arena by one step of AdamW; `now` points to the device's memory.
  /// `Arena`: an optimizer_arena, or a rounded_arena.
  template <class Arena>
  void adamw(Arena const& of, adamw_constants const& fixed, adamw_numbers const* now) const {
    self().run(operation::adamw{}, matrix<adamw_numbers const>{now, 1, 1}, of, fixed);
  }
  template <class T, class Gradient, class Copy>
  void sgd(optimizer_arena<T, Gradient, Copy> const& of, sgd_constants const& fixed,
           sgd_numbers const* now) const {
    self().run(operation::sgd{}, matrix<sgd_numbers const>{now, 1, 1}, of, fixed);
  }

 private:
  [[nodiscard]] Queue const& self() const { return static_cast<Queue const&>(*this); }
};

}  // namespace plait::ext
