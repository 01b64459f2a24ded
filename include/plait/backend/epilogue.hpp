// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>

#include "plait/backend/matrix.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/operation/rows.hpp"

namespace plait::ext {

/// Stands for no function behind a product.
struct no_function {};

/// The work done on a matrix product c = a b as it is stored: `row`, if it is not null, is added to
/// each row of c, and `added` to c; then `mapped` = f(c), or f(kept, c) if f takes two values.
///
/// After an f of two values (a derivative) nobody may read c: a device need not store it.
/// Shapes: row (columns of c); added, kept and mapped like c, without gaps. mapped may be c.
template <class T, class Function = no_function>
struct epilogue {
  T const* row = nullptr;
  Function f{};
  T const* kept = nullptr;
  T* mapped = nullptr;
  T const* added = nullptr;

  static constexpr bool maps = !std::is_same_v<Function, no_function>;
  static constexpr bool takes_two = std::invocable<Function, accumulate_t<T>, accumulate_t<T>>;
};

/// Sums that are made with a product c = op(a) op(b): `sums` += the sums over the inner extent of
/// op(a), one for each row of c, or of op(b), one for each column.
///
/// That operand lies so that its rows are the inner extent (a transposed, or b as it is) and has no
/// gaps between them.
template <class S>
struct operand_sums {
  S* sums = nullptr;
  bool of_a = false;
};

/// The sum and the function of an epilogue alone, on the `count` values of c.
template <class Queue, class T, class Function>
void run_epilogue(Queue const& queue, std::size_t count, T* c, epilogue<T, Function> const& then) {
  using kind = epilogue<T, Function>;
  auto const made = row_of(static_cast<T const*>(c), count);
  if (then.added != nullptr) queue.add(made.data, then.added, c, count);
  if constexpr (kind::maps && kind::takes_two)
    queue.run(operation::map{}, then.f, row_of(then.mapped, count), row_of(then.kept, count), made);
  else if constexpr (kind::maps)
    queue.run(operation::map{}, then.f, row_of(then.mapped, count), made);
}

/// A product and its epilogue one after the other, on a queue that cannot do them together.
template <class Queue, class T, class Function>
void matmul_in_passes(Queue const& queue, matrix<T const> a, matrix<T const> b, matrix<T> c,
                      transposes lie, epilogue<T, Function> const& then) {
  queue.run(operation::matmul{}, a, b, c, lie, false);
  if (then.row != nullptr) queue.add_row(then.row, c.data, c.rows, c.columns);
  run_epilogue(queue, c.count(), c.data, then);
}

/// The same where the row is in c before the product, which is added to it: a pass less on a
/// processor.
template <class Queue, class T, class Function>
void matmul_onto_row(Queue const& queue, matrix<T const> a, matrix<T const> b, matrix<T> c,
                     transposes lie, epilogue<T, Function> const& then) {
  if (then.row != nullptr) queue.copy_blocks(then.row, 0, c.data, c.columns, c.rows, c.columns);
  queue.run(operation::matmul{}, a, b, c, lie, then.row != nullptr);
  run_epilogue(queue, c.count(), c.data, then);
}

/// A product, and sums of one of its operands, one after the other.
template <class Queue, class A, class C, class S>
void matmul_and_sums_in_passes(Queue const& queue, matrix<A const> a, matrix<A const> b,
                               matrix<C> c, transposes lie, bool accumulate,
                               operand_sums<S> const& with) {
  queue.run(operation::matmul{}, a, b, c, lie, accumulate);
  auto const& of = with.of_a ? a : b;
  queue.accumulate_column_sums(of.data, with.sums, of.rows, of.columns);
}

}  // namespace plait::ext
