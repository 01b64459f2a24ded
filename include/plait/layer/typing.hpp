// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/placement/placement.hpp"

/// Which placements the operands and the result of an operation may have on one axis.
///
/// An operation is sound if the local results denote the result on the denoted operands, and the
/// same holds for its gradients in the dual placements. The lists for sums and products are
/// complete: every other combination is wrong. docs/design/placement.md has the derivation.
namespace plait::typing {

constexpr bool is_rows(placement at) { return is_shard(at) && at.index == 0; }
constexpr bool is_columns(placement at) { return is_shard(at) && at.index == 1; }

constexpr placement transpose(placement at) {
  if (is_shard(at)) at.index = 1 - at.index;
  return at;
}

/// The result of a matrix product is not always defined; `only<-1>` stands for "no such rule".
inline constexpr placement no_rule{placement_kind::only, -1};

/// (m, k) times (k, n).
constexpr placement product(placement a, placement b) {
  if (a == replicate && b == replicate) return replicate;
  if (a == invariant && b == invariant) return invariant;
  if (is_rows(a) && b == replicate) return a;
  if (a == replicate && is_columns(b)) return b;
  if (is_columns(a) && is_rows(b) && a.parts == b.parts) return partial;
  if (a == partial && b == replicate) return partial;
  if (a == replicate && b == partial) return partial;
  return no_rule;
}

/// A matrix plus a row for each of its rows.
constexpr bool adds_row(placement matrix, placement row) {
  if (is_rows(matrix)) return row == replicate;
  return matrix == row && matrix.kind != placement_kind::partial_max;
}

/// The sum over the rows of a matrix.
constexpr placement column_sums(placement matrix) { return is_rows(matrix) ? partial : matrix; }

/// An operation on each row: the row must be whole, a shared row is replicate where the rows
/// differ.
constexpr bool works_by_row(placement matrix, placement shared) {
  if (is_rows(matrix)) return shared == replicate;
  return is_whole(matrix) && matrix == shared;
}

template <placement A, placement B, placement Out>
consteval void check_product() {
  static_assert(product(A, B) != no_rule,
                "ops.matmul(a, b, out): there is no product of a placed A and b placed B; the "
                "rules are (replicate, replicate), (invariant, invariant), (rows, replicate), "
                "(replicate, columns), (columns, rows) -> partial, (partial, replicate), "
                "(replicate, partial); correct the form's placements");
  static_assert(product(A, B) == no_rule || product(A, B) == Out,
                "ops.matmul(a, b, out): the product of A and B is not placed Out, as the form "
                "promises; correct the form's output, or that of the parameter's gradient");
}

template <placement A, placement B, placement Out>
consteval void check_sum() {
  static_assert(A == B && A == Out,
                "ops.add(a, b, out): operands and result must have one placement (adding partial "
                "and replicate would count the replicate once for each rank); move one of them, or "
                "let it enter once");
  static_assert(A.kind != placement_kind::partial_max,
                "ops.add(a, b, out): a partial maximum has no sum; write "
                "ops.move<plait::invariant>(a) first");
}

template <placement Matrix, placement Row>
consteval void check_add_row() {
  static_assert(adds_row(Matrix, Row),
                "ops.add_row(row, matrix): this row cannot be added to this matrix (adding partial "
                "and replicate would count the row once for each rank); write once<row> in the "
                "form if the matrix is partial, replicate if it is cut by rows");
}

template <placement Matrix, placement Sums>
consteval void check_column_sums() {
  static_assert(column_sums(Matrix) == Sums,
                "ops.accumulate_column_sums(dy, sums): the sum over the rows of a matrix placed "
                "Matrix is not placed Sums, as the form promises for this gradient; correct the "
                "use<...> of the parameter");
}

/// `Linear`: the function is linear in its last operand, and the others are not partial.
template <bool Linear, placement Out, placement... Operands>
consteval void check_map() {
  constexpr bool has_partial = ((is_partial(Operands)) || ...);
  static_assert(Linear || !has_partial,
                "ops.map(f, x, y): f is not linear and x is partial (a sum still to be made): f of "
                "a summand is not a summand of f; give the form an input that is not partial, or "
                "declare `static constexpr bool is_linear = true;` in f");
  static_assert(((Operands == Out) && ...),
                "ops.map(f, x, y): operands and result must have one placement; correct the form, "
                "or the view that is not placed as the form says");
}

template <placement At, placement Gradient>
consteval void check_gradient() {
  static_assert(Gradient == dual(At),
                "a gradient must be placed as the dual of its value: replicate and partial change "
                "places, everything else stays; correct the form");
}

template <placement Matrix, placement Shared>
consteval void check_row_operation() {
  static_assert(works_by_row(Matrix, Shared),
                "this operation works on whole rows: the matrix must be invariant (with invariant "
                "parameters) or cut by rows (with replicate parameters); correct the form");
}

template <placement Matrix>
consteval void check_whole_rows() {
  static_assert(is_whole(Matrix) || is_rows(Matrix),
                "ops.rows(f, ...): f sees whole rows; a matrix cut by columns or partial has none; "
                "give the form an input that is invariant or cut by positions");
}

}  // namespace plait::typing
