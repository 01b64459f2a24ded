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

/// A stand-in for the function of an epilogue that has no function.
struct no_function {};

/// The elementwise work that a kernel does on a matrix product c = a b before it stores c: `row`,
/// if not null, is added to each row of c, and `added`, if not null, to c; then `mapped` = f(c), or
/// f(kept, c) if f takes two values.
///
/// If f takes two values (f is the derivative of an activation), c is not read afterwards, so a
/// device need not store c.
/// Shapes: row has one element for each column of c; added, kept and mapped have the shape of c,
///         without gaps between rows. mapped may be c.
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

/// Sums that a kernel computes together with a product c = op(a) op(b), such as a bias gradient. If
/// of_a is true, the row sums of op(a) are added to `sums`, one for each row of c; otherwise the
/// column sums of op(b), one for each column of c.
///
/// The summed operand must be stored with the inner extent of the product as its rows (a is
/// transposed, or b is not), without gaps between rows.
template <class S>
struct operand_sums {
  S* sums = nullptr;
  bool of_a = false;
};

/// Adds `added` to the `count` values of c and then applies the function of an epilogue.
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

/// Runs a product and then its epilogue, for a queue without a kernel that does both.
template <class Queue, class T, class Function>
void matmul_in_passes(Queue const& queue, matrix<T const> a, matrix<T const> b, matrix<T> c,
                      transposes lie, epilogue<T, Function> const& then) {
  queue.run(operation::matmul{}, a, b, c, lie, false);
  if (then.row != nullptr) queue.add_row(then.row, c.data, c.rows, c.columns);
  run_epilogue(queue, c.count(), c.data, then);
}

/// Runs a product and its epilogue on a CPU: copies the row to each row of c first and lets the
/// product accumulate into c. This saves one pass over c.
template <class Queue, class T, class Function>
void matmul_onto_row(Queue const& queue, matrix<T const> a, matrix<T const> b, matrix<T> c,
                     transposes lie, epilogue<T, Function> const& then) {
  if (then.row != nullptr) queue.copy_blocks(then.row, 0, c.data, c.columns, c.rows, c.columns);
  queue.run(operation::matmul{}, a, b, c, lie, then.row != nullptr);
  run_epilogue(queue, c.count(), c.data, then);
}

/// Runs a product and then sums one of its operands, for a queue without a kernel that does both.
template <class Queue, class A, class C, class S>
void matmul_and_sums_in_passes(Queue const& queue, matrix<A const> a, matrix<A const> b,
                               matrix<C> c, transposes lie, bool accumulate,
                               operand_sums<S> const& with) {
  queue.run(operation::matmul{}, a, b, c, lie, accumulate);
  auto const& of = with.of_a ? a : b;
  queue.accumulate_column_sums(of.data, with.sums, of.rows, of.columns);
}

}  // namespace plait::ext
