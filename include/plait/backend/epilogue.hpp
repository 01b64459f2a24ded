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

/// The function of an epilogue without a function.
struct no_function {};

/// The work on a matrix product c = a b while it is stored: `row`, if it is not null, is added to
/// each row of c, and `added` to c; then `mapped` = f(c), or f(kept, c) if f takes two values.
///
/// After an f of two values (a derivative) c is not read: a device need not store it.
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

/// Sums that are computed together with a product c = op(a) op(b): `sums` += the sums over the
/// inner extent of op(a), one for each row of c, or of op(b), one for each column.
///
/// The rows of that operand must be the inner extent (a is read transposed, or b is not), without
/// gaps between them.
template <class S>
struct operand_sums {
  S* sums = nullptr;
  bool of_a = false;
};

/// Runs only the sum and the function of an epilogue, on the `count` values of c.
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

/// Runs a product and then its epilogue, on a queue that cannot do both together.
template <class Queue, class T, class Function>
void matmul_in_passes(Queue const& queue, matrix<T const> a, matrix<T const> b, matrix<T> c,
                      transposes lie, epilogue<T, Function> const& then) {
  queue.run(operation::matmul{}, a, b, c, lie, false);
  if (then.row != nullptr) queue.add_row(then.row, c.data, c.rows, c.columns);
  run_epilogue(queue, c.count(), c.data, then);
}

/// Runs a product and its epilogue, with the row copied to c first and the product added to it,
/// which is a pass less on a processor.
template <class Queue, class T, class Function>
void matmul_onto_row(Queue const& queue, matrix<T const> a, matrix<T const> b, matrix<T> c,
                     transposes lie, epilogue<T, Function> const& then) {
  if (then.row != nullptr) queue.copy_blocks(then.row, 0, c.data, c.columns, c.rows, c.columns);
  queue.run(operation::matmul{}, a, b, c, lie, then.row != nullptr);
  run_epilogue(queue, c.count(), c.data, then);
}

/// Runs a product and then the sums of one of its operands.
template <class Queue, class A, class C, class S>
void matmul_and_sums_in_passes(Queue const& queue, matrix<A const> a, matrix<A const> b,
                               matrix<C> c, transposes lie, bool accumulate,
                               operand_sums<S> const& with) {
  queue.run(operation::matmul{}, a, b, c, lie, accumulate);
  auto const& of = with.of_a ? a : b;
  queue.accumulate_column_sums(of.data, with.sums, of.rows, of.columns);
}

}  // namespace plait::ext
