// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <initializer_list>
#include <type_traits>

#include "plait/operation/signatures.hpp"
#include "plait/placement/placement.hpp"
#include "plait/placement/transition.hpp"

/// Which placements the operands and the result of an operation may have on one axis.
///
/// An operation is sound if the local results denote the result on the denoted operands, and the
/// same holds for its gradients in the dual placements. Which combinations are sound follows from
/// the indices of the operands (operation/signatures.hpp).
namespace plait::typing {

constexpr bool is_rows(placement at) { return ext::is_shard(at) && at.index == 0; }
constexpr bool is_columns(placement at) { return ext::is_shard(at) && at.index == 1; }

constexpr placement transpose(placement at) {
  if (ext::is_shard(at)) at.index = 1 - at.index;
  return at;
}

using operation::allows;
using operation::linearity;

/// A placement that no operand has: for an argument that is not placed.
inline constexpr placement no_rule{ext::placement_kind::only, -1};

/// The placement of the product of two matrices, or `no_rule` if it has none.
constexpr placement product(placement a, placement b) {
  for (placement const out : {replicate, invariant, partial, a, b})
    if (allows(operation::matmul, {a, b, out})) return out;
  return no_rule;
}

/// What a function says of itself by `is_linear` or `is_linear_in_last`.
template <class Function>
inline constexpr linearity linearity_of = [] {
  if constexpr (requires { Function::is_linear; })
    if (Function::is_linear) return linearity::in_all;
  if constexpr (requires { Function::is_linear_in_last; })
    if (Function::is_linear_in_last) return linearity::in_last;
  return linearity::none;
}();

/// A view that an operation of a layer's own gets; `no_rule` for an argument without a placement.
struct own_operand {
  placement at;
  bool is_written;
};

template <class View>
consteval own_operand own_operand_of() {
  if constexpr (requires { View::at; }) return {View::at, !std::is_const_v<typename View::element>};
  else return {no_rule, false};
}

/// What all operands of such an operation have to be placed like: as those that are cut by rows, if
/// there are some.
constexpr placement main_operand(std::initializer_list<own_operand> operands) {
  placement main = no_rule;
  for (auto const& of : operands)
    if (of.at != no_rule && (main == no_rule || is_rows(of.at))) main = of.at;
  return main;
}

/// Whether it may run on such blocks: all alike, or beside rows what all of them share, and sums
/// over them.
constexpr bool runs_on(std::initializer_list<own_operand> operands) {
  placement const main = main_operand(operands);
  for (auto const& of : operands) {
    bool const beside_rows = is_rows(main) && of.at == (of.is_written ? partial : replicate);
    if (of.at != no_rule && of.at != main && !beside_rows) return false;
  }
  return true;
}

// Operations assert the constants below that call the checks: then g++ with
// -ftemplate-backtrace-limit=1 leaves out both the constant and the operation, whose name has the
// types of all views.

/// Of a kernel given to ops.run, whether it can be called with a queue and the views.
template <class Kernel, bool CanBeCalled>
consteval void check_kernel() {
  static_assert(CanBeCalled,
                "ops.run(kernel, views...): the kernel cannot be called with a queue and these "
                "views; write `void operator()(auto const& queue, auto x, auto y) const`, with as "
                "many views as are given");
}
template <class Kernel, bool CanBeCalled>
inline constexpr bool sound_kernel = (check_kernel<Kernel, CanBeCalled>(), true);

/// `T`: of the elements of a view that an operation writes.
template <class T>
consteval void check_written() {
  static_assert(!std::is_const_v<T>,
                "an operation writes to a view that may only be read: forward alone writes what is "
                "saved, and nobody an input or the gradient of an output; write to l.y, l.dx, l.dp "
                "or a scratch slot");
}
template <class T>
inline constexpr bool sound_written = (check_written<T>(), true);

template <bool SameType, placement At, placement Out>
consteval void check_copy() {
  static_assert(SameType,
                "ops.copy(x, y): x and y have elements of different types; write ops.map(f, x, y), "
                "or give a slot the other slot_element");
  static_assert(At == Out,
                "ops.copy(x, y): x and y must have one placement; correct the form, or the view "
                "that is not placed as the form says");
}
template <bool SameType, placement At, placement Out>
inline constexpr bool sound_copy = (check_copy<SameType, At, Out>(), true);

template <placement A, placement B, placement Out>
consteval void check_product() {
  static_assert(
      product(A, B) != no_rule,
      "ops.matmul(a, b, out): there is no product of a placed A and b placed B; the "
      "rules are (replicate, replicate), (invariant, invariant), (rows, replicate), "
      "(replicate, columns), (columns, rows) -> partial, (partial, replicate), "
      "(replicate, partial); correct the form's placements, or write plait::transposed(b) "
      "for an operand that is to be read transposed");
  static_assert(
      product(A, B) == no_rule || product(A, B) == Out,
      "ops.matmul(a, b, out): the product of A and B is not placed Out, as the form "
      "promises; correct the form's output, or that of the parameter's gradient; a slot is "
      "cut by features if it says follows::features");
}
template <placement A, placement B, placement Out>
inline constexpr bool sound_product = (check_product<A, B, Out>(), true);

template <placement A, placement B, placement Out>
consteval void check_sum() {
  static_assert(allows(operation::add, {A, B, Out}) || A == partial_max,
                "ops.add(a, b, out): operands and result must have one placement (adding partial "
                "and replicate would count the replicate once for each rank); move one of them, or "
                "let it enter once");
  static_assert(A != partial_max,
                "ops.add(a, b, out): a partial maximum has no sum; write "
                "ops.move<plait::invariant>(a) first");
}
template <placement A, placement B, placement Out>
inline constexpr bool sound_sum = (check_sum<A, B, Out>(), true);

template <placement Matrix, placement Row>
consteval void check_add_row() {
  static_assert(allows(operation::add_row, {Row, Matrix, Matrix}),
                "ops.add_row(row, matrix): this row cannot be added to this matrix (adding partial "
                "and replicate would count the row once for each rank); write once<row> in the "
                "form if the matrix is partial, replicate if it is cut by rows");
}
template <placement Matrix, placement Row>
inline constexpr bool sound_add_row = (check_add_row<Matrix, Row>(), true);

template <placement Matrix, placement Sums>
consteval void check_column_sums() {
  static_assert(
      allows(operation::column_sums, {Matrix, Sums}),
      "ops.accumulate_column_sums(dy, sums): the sum over the rows of a matrix placed "
      "Matrix is not placed Sums, as the form promises for this gradient, or for this slot; "
      "correct the use<...> of the parameter, or write one for the slot");
}
template <placement Matrix, placement Sums>
inline constexpr bool sound_column_sums = (check_column_sums<Matrix, Sums>(), true);

/// True if a table with a row for each position can be added to rows, or have their sums: it is
/// shared like a single row, or cut by positions like the rows.
template <placement Rows, placement Table>
inline constexpr bool sound_positions =
    allows(operation::add_row, {Table, Rows, Rows}) || allows(operation::add, {Table, Rows, Rows});
template <placement Rows, placement Sums>
inline constexpr bool sound_position_sums =
    allows(operation::column_sums, {Rows, Sums}) || (is_rows(Rows) && Rows == Sums);

template <placement A, placement B, placement Sums>
consteval void check_columns() {
  static_assert(
      A == B && !ext::is_partial(A),
      "ops.accumulate_columns(f, a, b, sums): a and b must have one placement, and not be "
      "partial (f of a summand is not a summand of f); correct the form, or move the one "
      "that is partial");
  static_assert(allows(operation::accumulate_columns, {A, A, Sums}) || ext::is_partial(A),
                "ops.accumulate_columns(f, a, b, sums): the sum over the rows of a matrix placed A "
                "is not placed Sums, as the form promises for this gradient; correct the use<...> "
                "of the parameter");
}
template <placement A, placement B, placement Sums>
inline constexpr bool sound_columns = (check_columns<A, B, Sums>(), true);

/// True if a function of elements may read such operands, which have the result's shape.
template <linearity How, placement Out, placement... Operands>
inline constexpr bool maps =
    allows(operation::signature::element_wise(sizeof...(Operands), How), {Operands..., Out});

template <linearity How, placement Out, placement... Operands>
consteval void check_map() {
  constexpr int sums = ((Operands == partial) + ...);
  static_assert(((Operands != partial_max) && ...) && Out != partial_max,
                "ops.map(f, x, y): x or y is partial_max, and f of a maximum is not the maximum of "
                "f; write ops.move<plait::invariant>(x) first");
  static_assert(How != linearity::none || sums == 0,
                "ops.map(f, x, y): f is not linear and x is partial (a sum still to be made): f of "
                "a summand is not a summand of f; give the form an input that is not partial, or "
                "declare in f `static constexpr bool is_linear = true;` if it is linear in all "
                "operands together, `is_linear_in_last` if in the last one only");
  static_assert(How != linearity::in_last || sums <= 1,
                "ops.map(f, a, b, y): f is linear in its last operand only (is_linear_in_last) and "
                "both a and b are partial: a product of sums is not the sum of the products; use a "
                "as replicate (ops.move<plait::replicate>(a)), or declare `is_linear = true` if f "
                "is linear in a and b together, as a + b is");
  static_assert(maps<How, Out, Operands...> || ((Operands == partial_max) || ...) ||
                    Out == partial_max || (How == linearity::none && sums > 0) ||
                    (How == linearity::in_last && sums > 1),
                "ops.map(f, x, y): operands and result must have one placement (or, if f says "
                "is_linear_in_last, the last operand and the result partial and the others "
                "replicate); correct the form, or the view that is not placed as the form says");
}
template <linearity How, placement Out, placement... Operands>
inline constexpr bool sound_map = (check_map<How, Out, Operands...>(), true);

/// What a function says of itself by `block`: how many columns around its own it reads of a row; 0
/// if it may read all.
template <class Function>
inline constexpr std::size_t block_of = [] {
  if constexpr (requires { Function::block; }) return std::size_t{Function::block};
  else return std::size_t{0};
}();

/// The `read_block` of a function that reads rows with another number of columns than y: the width
/// of the block of a row that belongs to one block of y.
template <class Function>
inline constexpr std::size_t read_block_of = [] {
  if constexpr (requires { Function::read_block; }) return std::size_t{Function::read_block};
  else return block_of<Function>;
}();

/// True if a function of places may read such operands: placed like the result, or replicate where
/// the result is cut; sums still to be made as for a map.
template <linearity How, placement Out, placement... Operands>
inline constexpr bool maps_at =
    (Out != partial_max) &&
    (... && (Operands == Out || (ext::is_shard(Out) && Operands == replicate)));
template <linearity How, placement... Operands>
inline constexpr bool maps_at<How, partial, Operands...> = maps<How, partial, Operands...>;
template <linearity How>
inline constexpr bool maps_at<How, partial> = false;

template <linearity How, std::size_t Block, placement Out, placement... Operands>
consteval void check_map_at() {
  constexpr bool whole_rows = !is_columns(Out) && !(is_columns(Operands) || ... || false);
  static_assert(Block > 0 || whole_rows,
                "ops.map_at(f, y, views...): y or a view is cut by columns, and f may read the "
                "whole row; declare in f `static constexpr std::size_t block = N;` if it reads "
                "none but the N columns around its own, or give the form rows that are whole");
  static_assert(((Out.parts == 1) && ... && (Operands.parts == 1)),
                "ops.map_at(f, y, views...): y or a view is cut in several parts, so that this "
                "rank's columns are no neighbours; give the form shard<dim::features>");
  static_assert(maps_at<How, Out, Operands...>,
                "ops.map_at(f, y, views...): the views must be placed as y, or, beside a y that is "
                "cut, replicate; partial (a sum still to be made) only if f declares `is_linear`, "
                "or `is_linear_in_last` with the other views replicate; correct the form, or the "
                "view that is not placed as the form says");
}
template <linearity How, std::size_t Block, placement Out, placement... Operands>
inline constexpr bool sound_map_at = (check_map_at<How, Block, Out, Operands...>(), true);

template <bool CanBeCalled>
consteval void check_function_at() {
  static_assert(CanBeCalled,
                "ops.map_at(f, y, views...): f cannot be called with a place and a row of each "
                "view; write `PLAIT_HOST_DEVICE auto operator()(plait::ext::element_place const& "
                "at, auto row) const`, with as many rows as there are views, which returns one "
                "number");
}
template <bool CanBeCalled>
inline constexpr bool sound_function_at = (check_function_at<CanBeCalled>(), true);

/// `Piece`: the columns that the most ranks have which a form allows.
template <std::size_t Piece, std::size_t Block>
consteval void check_blocks() {
  static_assert(Block == 0 || Piece % Block == 0,
                "ops.map_at(f, y, views...): the form lets ranks cut the features into pieces of "
                "Piece columns, and f reads blocks of Block: a cut may go through a block; write "
                "`static constexpr std::size_t units = ...;`, the number of blocks, in the layer, "
                "or units_of<...> in the form");
}
template <std::size_t Piece, std::size_t Block>
inline constexpr bool sound_blocks = (check_blocks<Piece, Block>(), true);

/// `Linear`: the kernel says that it is linear in all that it reads together.
template <bool Linear, class... Views>
consteval void check_run() {
  static_assert(((own_operand_of<Views>().at != partial_max) && ...),
                "ops.run(kernel, views...): a view is a partial maximum, of which the kernel has "
                "only this rank's part; write ops.move<plait::invariant>(view) first, or declare "
                "`static constexpr bool any_placement = true;` in a kernel that makes it");
  static_assert(Linear || main_operand({own_operand_of<Views>()...}) != partial,
                "ops.run(kernel, views...): a view is partial (a sum still to be made) and the "
                "kernel is not said to be linear: it would be run on a summand; give the form a "
                "value that is not partial, or declare `static constexpr bool is_linear = true;` "
                "in the kernel");
  static_assert(runs_on({own_operand_of<Views>()...}),
                "ops.run(kernel, views...): the views are not placed alike; beside views cut by "
                "rows, what is read may be replicate and what is written partial (sums over the "
                "rows); correct the form, or declare `static constexpr bool any_placement = true;` "
                "in a kernel that is right for these placements");
}
template <bool Linear, class... Views>
inline constexpr bool sound_run = (check_run<Linear, Views...>(), true);

/// The arguments of an operation that says its indices. Views have indices, in their order;
/// arguments without a placement, as tokens, have none.
template <operation::signature Of, class... Views>
struct indexed_views {
  static constexpr int count = (0 + ... + (own_operand_of<Views>().at != no_rule ? 1 : 0));
  placement at[std::size_t(count) + 1] = {};  ///< placements of the views
  bool is_read[sizeof...(Views) + 1] = {};    ///< for each argument: a view that is only read
  bool can_write = true;                      ///< all results have elements that are not const

  constexpr indexed_views() {
    int number = 0, placed = 0;
    for (auto const& each : {own_operand_of<Views>()...}) {
      if (each.at != no_rule && placed < Of.count) {
        bool const writes = Of.operands[placed].is_written;
        at[placed++] = each.at;
        is_read[number] = !writes;
        if (writes && !each.is_written) can_write = false;
      }
      ++number;
    }
  }
};
/// `View`: the number of the view that is wrong, from 0, as compilers show it.
template <operation::misplacement What, int View>
consteval void check_indices() {
  using enum operation::misplacement;
  static_assert(What != cut_of_whole,
                "ops.run<indices>(kernel, views...): a view is cut along an index that stands "
                "after 'whole': each rank would have a part of what the kernel needs; give the "
                "form an input that is not cut so, or take the index out of 'whole'");
  static_assert(What != cut_otherwise,
                "ops.run<indices>(kernel, views...): a view is cut along a dimension that its "
                "indices say is 1, or into other parts than '3h' says; correct the indices or the "
                "form");
  static_assert(What != unlike_cut,
                "ops.run<indices>(kernel, views...): one view is cut along an index, and another "
                "does not follow it: a view that has the index must be cut along it, too, and one "
                "that is read and lacks it must be replicate; correct the form or the indices");
  static_assert(What != unreduced,
                "ops.run<indices>(kernel, views...): a view that is written lacks the index that "
                "is cut, so each rank has its part of a sum: it must be partial, or partial_max "
                "if the index stands after 'max'; correct the form or the indices");
  static_assert(What != mixed,
                "ops.run<indices>(kernel, views...): some views are replicate and others "
                "invariant, so that one gradient would be complete and the other a summand; give "
                "the form one of them for all");
  static_assert(What != of_summands,
                "ops.run<indices>(kernel, views...): a view is partial (a sum still to be made) "
                "and the kernel is not said to be linear in it, or another view does not fit to "
                "it: write 'linear all', 'linear each' or 'linear last' after the indices, with "
                "all that is written partial; except with 'linear all', what else is read is "
                "replicate");
}
/// `Of`: the indices that are given in the call.
template <operation::signature Of, class... Views>
consteval void check_run_by_indices() {
  constexpr indexed_views<Of, Views...> indexed;
  // Named, since clang writes out the condition of an assertion before its text.
  constexpr bool has_each = Of.count == indexed.count;
  static_assert(has_each,
                "ops.run<indices>(kernel, views...): the text has the indices of more or fewer "
                "operands than there are views; write those of each view in the order of the "
                "call, but none of tokens: ops.template run<\"r i, i j -> r j\">(kernel, x, w, y)");
  if constexpr (has_each) {
    static_assert(indexed.can_write,
                  "ops.run<indices>(kernel, views...): a view whose indices stand after '->' has "
                  "const elements, so the kernel cannot write it; give what is read first, or a "
                  "view of elements that are not const");
    constexpr operation::judgment judged = judge(Of, indexed.at);
    check_indices<judged.what, judged.operand>();
  }
}
template <operation::signature Of, class... Views>
inline constexpr bool sound_run_by_indices = (check_run_by_indices<Of, Views...>(), true);

/// Whether ops.move<To>(x) reduces an x placed `From`; else it is that value already.
template <placement From, placement To>
consteval bool moves_values() {
  constexpr ext::transition row = ext::transition_between(From, To);
  static_assert(
      row.allowed() && (row.moves == ext::local_move::none || reduces_in_place(row.moves)),
      "ops.move<To>(x): inside a layer a value can change its placement only in place; "
      "the rows partial -> invariant and partial -> replicate do");
  return row.moves != ext::local_move::none;
}

template <placement At>
consteval void check_logits() {
  static_assert(!ext::is_partial(At),
                "ops.row_max, ops.cross_entropy_terms, ops.cross_entropy_backward: the logits are "
                "still partial (a sum to be made), and a maximum or exponential of summands is "
                "none of the sum; give the form an input that is invariant or cut by features");
}
template <placement At>
inline constexpr bool sound_logits = (check_logits<At>(), true);

template <placement At, placement Gradient>
consteval void check_gradient() {
  static_assert(Gradient == ext::dual(At),
                "a gradient must be placed as the dual of its value: replicate and partial change "
                "places, everything else stays; correct the form");
}
template <placement At, placement Gradient>
inline constexpr bool sound_gradient = (check_gradient<At, Gradient>(), true);

template <placement Matrix, placement Shared>
consteval void check_row_operation() {
  static_assert(allows(operation::row_operation, {Matrix, Shared, Matrix}),
                "this operation works on whole rows: the matrix must be invariant (with invariant "
                "parameters) or cut by rows (with replicate parameters); correct the form");
}
template <placement Matrix, placement Shared>
inline constexpr bool sound_row_operation = (check_row_operation<Matrix, Shared>(), true);

template <placement Matrix>
consteval void check_whole_rows() {
  static_assert(ext::is_whole(Matrix) || is_rows(Matrix),
                "ops.rows(f, ...): f sees whole rows; a matrix cut by columns or partial has none; "
                "give the form an input that is invariant or cut by positions");
}
template <placement Matrix>
inline constexpr bool sound_whole_rows = (check_whole_rows<Matrix>(), true);

template <placement Qkv, placement Out>
consteval void check_heads() {
  static_assert(allows(operation::attention, {Qkv, Out}),
                "ops.attention(qkv, out, ...): qkv must be whole, or cut by features in 3 parts "
                "(whole heads of query, key and value), and out alike");
}
template <placement Qkv, placement Out>
inline constexpr bool sound_heads = (check_heads<Qkv, Out>(), true);

/// Checks a convolution by its signature and by the one for groups of channels.
template <placement X, placement Weight, placement Out>
consteval void check_convolution() {
  static_assert(
      allows(operation::convolve, {X, Weight, Out}) ||
          allows(operation::convolve_groups, {X, Weight, Out}),
      "ops.convolve(in, groups, x, w, y, ...): x, w and y are not placed as a convolution can be "
      "cut; the rules are (replicate, rows of w) -> columns, (columns, columns of w) -> partial, "
      "(rows, replicate) -> rows, and with groups (columns, rows of w) -> columns; correct the "
      "form");
}
template <placement X, placement Weight, placement Out>
inline constexpr bool sound_convolution = (check_convolution<X, Weight, Out>(), true);

template <placement Gradient, placement Weight, placement At>
consteval void check_convolution_input() {
  static_assert(
      allows(operation::convolve_backward_input, {Gradient, Weight, At}) ||
          allows(operation::convolve_groups, {Gradient, Weight, At}),
      "ops.convolve_backward_input(in, groups, dy, w, dx, ...): dy, w and dx are not placed as the "
      "gradient of a convolution can be cut; the rules are (columns, rows of w) -> partial, "
      "(replicate, columns of w) -> columns, (rows, replicate) -> rows, and with groups (columns, "
      "rows of w) -> columns; correct the form");
}
template <placement Gradient, placement Weight, placement At>
inline constexpr bool sound_convolution_input =
    (check_convolution_input<Gradient, Weight, At>(), true);

template <placement Gradient, placement X, placement Sums>
consteval void check_convolution_weight() {
  static_assert(allows(operation::convolve_backward_weight, {Gradient, X, Sums}) ||
                    allows(operation::convolve_groups_backward_weight, {Gradient, X, Sums}),
                "ops.convolve_backward_weight(in, groups, dy, x, dw, ...): the gradient of the "
                "weight is not placed as the form promises; correct the split<...> of the weight");
}
template <placement Gradient, placement X, placement Sums>
inline constexpr bool sound_convolution_weight =
    (check_convolution_weight<Gradient, X, Sums>(), true);

/// Of pooling, which treats each channel by itself.
template <placement At, bool IsLinear>
consteval void check_pool() {
  static_assert(At != partial_max && (IsLinear || At != partial),
                "ops.max_pool(in, x, y): x is partial (a sum still to be made), and the largest "
                "summand is not the largest sum; give the form an input that is not partial");
}
template <placement At, bool IsLinear>
inline constexpr bool sound_pool = (check_pool<At, IsLinear>(), true);

/// Of a normalisation of images by sets of channels.
template <placement Images, placement Shared>
consteval void check_set_norm() {
  static_assert(allows(operation::normalize_sets, {Images, Shared, Images}),
                "ops.normalize_sets(...): the images must be whole or cut by channels, with gamma "
                "and beta cut alike, or cut by rows with replicate ones; correct the form");
}
template <placement Images, placement Shared>
inline constexpr bool sound_set_norm = (check_set_norm<Images, Shared>(), true);

template <placement Query, placement Key, placement Value, placement Out>
consteval void check_groups() {
  static_assert(
      Query.parts == 1 && (allows(operation::attention_groups, {Query, Key, Value, Out}) ||
                           allows(operation::attention_shared_groups, {Query, Key, Value, Out})),
      "ops.attention(groups, qkv, out, ...): query, key and value must be whole, or cut by "
      "features (whole heads), or the query cut by features and key and value replicate, and out "
      "like the query; or query and key replicate, and value and out partial");
}
template <placement Query, placement Key, placement Value, placement Out>
inline constexpr bool sound_groups = (check_groups<Query, Key, Value, Out>(), true);

template <placement Table, placement Out>
consteval void check_lookup() {
  static_assert(allows(operation::gather_rows, {Table, Out}),
                "ops.gather_rows(ids, table, out): rows looked up in a table cut by rows are "
                "partial; otherwise out is placed like the table, or cut by positions");
}
template <placement Table, placement Out>
inline constexpr bool sound_lookup = (check_lookup<Table, Out>(), true);

template <placement Gradient, placement Sums>
consteval void check_lookup_gradient() {
  static_assert(allows(operation::scatter_add_rows, {Gradient, Sums}),
                "ops.scatter_add_rows(ids, dy, sums): the sums of a dy placed Gradient are not "
                "placed Sums, as the form promises; correct the use<...> of the table");
}
template <placement Gradient, placement Sums>
inline constexpr bool sound_lookup_gradient = (check_lookup_gradient<Gradient, Sums>(), true);

}  // namespace plait::typing
