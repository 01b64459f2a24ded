// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <initializer_list>
#include <type_traits>

#include "plait/core/name.hpp"
#include "plait/operation/rows.hpp"
#include "plait/operation/signature.hpp"
#include "plait/placement/placement.hpp"
#include "plait/placement/transition.hpp"

/// The placements that the operands and the result of an operation may have on one axis.
///
/// An operation on local blocks is sound if the local results form the global result, and if the
/// gradients, in the dual placements, are sound, too. For example, the product of x cut by columns
/// and w cut by rows is partial. The sound combinations follow from the indices of the operands
/// (operation/rows.hpp).
namespace plait::typing {

using ext::printed_text;

constexpr bool is_rows(placement at) { return ext::is_shard(at) && at.index == 0; }
constexpr bool is_columns(placement at) { return ext::is_shard(at) && at.index == 1; }

constexpr placement transpose(placement at) {
  if (ext::is_shard(at)) at.index = 1 - at.index;
  return at;
}

using operation::allows;
using operation::linearity;

/// The value that stands for "no placement".
inline constexpr placement no_rule = operation::unplaced;

/// Returns the placement of the product of two matrices, or `no_rule` if no placement is sound.
constexpr placement product(placement a, placement b) {
  for (placement const out : {replicate, invariant, partial, a, b})
    if (allows(operation::indices_of<operation::matmul>, {a, b, out})) return out;
  return no_rule;
}

/// The linearity that a function declares by its member `is_linear` or `is_linear_in_last`.
template <class Function>
inline constexpr linearity linearity_of = [] {
  if constexpr (requires { Function::is_linear; })
    if (Function::is_linear) return linearity::in_all;
  if constexpr (requires { Function::is_linear_in_last; })
    if (Function::is_linear_in_last) return linearity::in_last;
  return linearity::none;
}();

/// The placement of an argument of an operation (`no_rule` if it has none), and a flag that is true
/// if the operation writes the argument.
struct own_operand {
  placement at;
  bool is_written;
};

template <class View>
consteval own_operand own_operand_of() {
  if constexpr (requires { View::at; }) return {View::at, !std::is_const_v<typename View::element>};
  else return {no_rule, false};
}

/// Returns the placement that all operands of a row-wise operation must have: the placement of the
/// operands that are cut by rows, if there are any.
constexpr placement main_operand(std::initializer_list<own_operand> operands) {
  placement main = no_rule;
  for (auto const& of : operands)
    if (of.at != no_rule && (main == no_rule || is_rows(of.at))) main = of.at;
  return main;
}

/// Returns true if a kernel may run on these operands: all have equal placements; or some are cut
/// by rows, the other operands that the kernel reads are replicate, and the other results are
/// partial.
constexpr bool runs_on(std::initializer_list<own_operand> operands) {
  placement const main = main_operand(operands);
  for (auto const& of : operands) {
    bool const beside_rows = is_rows(main) && of.at == (of.is_written ? partial : replicate);
    if (of.at != no_rule && of.at != main && !beside_rows) return false;
  }
  return true;
}

// The constants below call the checks, and operations assert the constants. If a check fails, g++
// with -ftemplate-backtrace-limit=1 then omits from its message both the constant and the
// operation, whose name contains the types of all views.

/// Fails to compile if an operation writes to a view with const elements. `T`: the element type of
/// a view that an operation writes.
template <class T>
consteval void check_written() {
  static_assert(!std::is_const_v<T>,
                "an operation writes to a view that may only be read: only forward writes saved "
                "slots, and no body writes an input or the gradient of an output; write to l.y, "
                "l.dx, l.dp or a scratch slot");
}
template <class T>
inline constexpr bool sound_written = (check_written<T>(), true);

template <bool SameType, placement At, placement Out>
consteval void check_copy() {
  static_assert(SameType,
                "ops.copy(x, y): x and y have elements of different types; write ops.map(f, x, y), "
                "or declare the slot with the other slot_element");
  static_assert(At == Out,
                "ops.copy(x, y): x and y must have the same placement; correct the form, or the "
                "view whose placement differs from the form");
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
  static_assert(product(A, B) == no_rule || product(A, B) == Out,
                "ops.matmul(a, b, out): the product of A and B is not placed Out, as the form "
                "promises; correct the form's output or the placement of the parameter's "
                "gradient, or write follows::features for a slot that is cut by features");
}
template <placement A, placement B, placement Out>
inline constexpr bool sound_product = (check_product<A, B, Out>(), true);

/// True if an element-wise function may read operands with these placements and write a result with
/// placement `Out`. All have the same shape.
template <linearity How, placement Out, placement... Operands>
inline constexpr bool maps =
    allows(operation::signature::element_wise(sizeof...(Operands), How), {Operands..., Out});

template <linearity How, placement Out, placement... Operands>
consteval void check_map() {
  constexpr int sums = ((Operands == partial) + ...);
  static_assert(((Operands != partial_max) && ...) && Out != partial_max,
                "ops.map(f, x, y): x or y is partial_max, and f of a maximum is not the maximum of "
                "f; write ops.move<plait::invariant>(x) first");
  static_assert(
      How != linearity::none || sums == 0,
      "ops.map(f, x, y): f is not linear and x is partial (a sum still to be made): f of a summand "
      "is not a summand of f; use a form in which x is not partial. If f is linear in all operands "
      "together, declare in f `static constexpr bool is_linear = true;`; if f is linear in the "
      "last operand only, declare `is_linear_in_last` instead");
  static_assert(How != linearity::in_last || sums <= 1,
                "ops.map(f, a, b, y): f is linear in its last operand only (is_linear_in_last) and "
                "both a and b are partial: a product of sums is not the sum of the products; make "
                "a replicate by ops.move<plait::replicate>(a), or declare `is_linear = true` if f "
                "is linear in a and b together, as a + b is");
  static_assert(
      maps<How, Out, Operands...> || ((Operands == partial_max) || ...) || Out == partial_max ||
          (How == linearity::none && sums > 0) || (How == linearity::in_last && sums > 1),
      "ops.map(f, x, y): operands and result must have the same placement; correct the form, or "
      "the view whose placement differs from the form. If f declares is_linear_in_last, the last "
      "operand and the result may also be partial while the other operands are replicate");
}
template <linearity How, placement Out, placement... Operands>
inline constexpr bool sound_map = (check_map<How, Out, Operands...>(), true);

/// The width of the blocks of columns within which a function reads: for an element of the result
/// it reads only the block that contains the element. The function declares the width as `block`; 0
/// means that it may read the whole row.
template <class Function>
inline constexpr std::size_t block_of = [] {
  if constexpr (requires { Function::block; }) return std::size_t{Function::block};
  else return std::size_t{0};
}();

/// The number of columns that a row of y has on all ranks together. The function declares the
/// number as `whole_columns` if y is not the layer's output; otherwise it is `Else`.
template <class Function, std::size_t Else>
inline constexpr std::size_t columns_of = [] {
  if constexpr (requires { Function::whole_columns; }) return std::size_t{Function::whole_columns};
  else return Else;
}();

/// The number of columns of view `View` that a function reads for one block of y. The number
/// differs from the block of y if the view and y have different numbers of columns. The function
/// declares it in `read_blocks`, with one number for each view, or as `read_block` for all views.
template <class Function, std::size_t View>
inline constexpr std::size_t read_block_of = [] {
  if constexpr (requires { Function::read_blocks; })
    return std::size_t{Function::read_blocks[View]};
  else if constexpr (requires { Function::read_block; }) return std::size_t{Function::read_block};
  else return block_of<Function>;
}();

/// True if the function of ops.map_at may read operands with these placements. Each operand has the
/// placement of the result, or is replicate while the result is cut. If the result is partial, the
/// rules of ops.map apply.
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
  static_assert(
      Block > 0 || whole_rows,
      "ops.map_at(f, y, views...): y or a view is cut by columns, but f may read the whole row; if "
      "f reads only the block of N columns that contains its own column, declare in f `static "
      "constexpr std::size_t block = N;`. Otherwise use a form in which rows are whole");
  static_assert(
      ((Out.parts == 1) && ... && (Operands.parts == 1)),
      "ops.map_at(f, y, views...): y or a view is cut in several parts, so that this rank's "
      "columns are not adjacent; write shard<dim::features>, without parts, in the form");
  static_assert(maps_at<How, Out, Operands...>,
                "ops.map_at(f, y, views...): each view must have the placement of y, or be "
                "replicate if y is cut. A view may be partial (a sum still to be made) only if f "
                "declares `is_linear`, or declares `is_linear_in_last` and the other views are "
                "replicate; correct the form, or the view whose placement differs from the form");
}
template <linearity How, std::size_t Block, placement Out, placement... Operands>
inline constexpr bool sound_map_at = (check_map_at<How, Block, Out, Operands...>(), true);

template <bool CanBeCalled>
consteval void check_function_at() {
  static_assert(
      CanBeCalled,
      "ops.map_at(f, y, views...): f cannot be called with a place and one row of each view; write "
      "`PLAIT_HOST_DEVICE auto operator()(plait::ext::element_place const& at, auto row) const`, "
      "with one parameter `row` for each view, and return one number");
}
template <bool CanBeCalled>
inline constexpr bool sound_function_at = (check_function_at<CanBeCalled>(), true);

/// Fails to compile if ranks may cut the features within a block. `Piece`: the number of columns
/// that one rank has if the largest possible number of ranks cuts the form.
template <std::size_t Piece, std::size_t Block>
consteval void check_blocks() {
  static_assert(Block == 0 || Piece % Block == 0,
                "ops.map_at(f, y, views...): the form lets ranks cut the features into pieces of "
                "Piece columns, but f reads blocks of Block columns, so a cut may go through a "
                "block; declare the number of blocks, by `static constexpr std::size_t units = "
                "...;` in the layer or by units_of<...> in the form");
}
template <std::size_t Piece, std::size_t Block>
inline constexpr bool sound_blocks = (check_blocks<Piece, Block>(), true);

/// Fails to compile if a kernel cannot run on views with these placements. `Linear`: true if the
/// kernel declares that it is linear in all operands that it reads, taken together.
template <bool Linear, class... Views>
consteval void check_run() {
  static_assert(((own_operand_of<Views>().at != partial_max) && ...),
                "ops.run(kernel, views...): a view is partial_max (a maximum still to be made), so "
                "the kernel would see only this rank's part; write "
                "ops.move<plait::invariant>(view) first. If the kernel itself computes the partial "
                "maximum, declare `static constexpr bool any_placement = true;` in the kernel");
  static_assert(
      Linear || main_operand({own_operand_of<Views>()...}) != partial,
      "ops.run(kernel, views...): a view is partial (a sum still to be made) and the kernel is not "
      "declared linear, so it would run on a summand; use a form in which the view is not partial, "
      "or declare `static constexpr bool is_linear = true;` in the kernel");
  static_assert(
      runs_on({own_operand_of<Views>()...}),
      "ops.run(kernel, views...): the views have different placements. If some views are cut by "
      "rows, the other views that are read may be replicate, and the other views that are written "
      "may be partial (sums over the rows); correct the form, or declare `static constexpr bool "
      "any_placement = true;` in the kernel if it is correct for these placements");
}
template <bool Linear, class... Views>
inline constexpr bool sound_run = (check_run<Linear, Views...>(), true);

/// Assigns the arguments of an operation to the operands of its signature, in their order. Three
/// kinds of arguments are not assigned: numbers, tokens if the operand is not constant, and
/// matrices after the last operand.
template <class... Arguments>
struct indexed_arguments {
  int count = 0;                                ///< number of operands that have an argument
  placement at[sizeof...(Arguments) + 1] = {};  ///< placements of the operands
  int operand[sizeof...(Arguments) + 1] = {};   ///< the operand of each argument, or -1
  bool is_read[sizeof...(Arguments) + 1] = {};  ///< true if the argument is only read
  bool can_write = true;                        ///< true if no result has const elements

  constexpr explicit indexed_arguments(operation::signature const& of, bool takes_tokens = true) {
    int number = 0;
    (add<Arguments>(of, number++, takes_tokens), ...);
  }

 private:
  template <class Argument>
  constexpr void add(operation::signature const& of, int number, bool takes_tokens) {
    operand[number] = -1;
    if constexpr (requires(Argument const& x) {
                    x.data;
                    x.rows;
                  }) {
      constexpr bool is_view = requires { Argument::at; };
      constexpr bool is_token = !is_view && !requires(Argument const& x) { x.stride; };
      bool const is_known = count < of.count;
      if (is_token && !(takes_tokens && is_known && of.operands[count].is_constant)) return;
      if (!is_view && !is_known) return;
      constexpr own_operand mine = own_operand_of<Argument>();
      bool const writes = is_known && of.operands[count].is_written;
      is_read[number] = is_known && !writes;
      if (writes && is_view && !mine.is_written) can_write = false;
      operand[number] = count;
      at[count++] = mine.at;
    }
  }
};
/// Fails to compile, with the reason, if an operand is placed wrongly. `What`: the reason why the
/// placement of an operand is wrong; `Operand`: its name, or its number from 1; `Of`: the
/// operation, or the indices that were passed to ops.run. Compilers print all three.
template <operation::misplacement What, printed_text Operand, class Of>
consteval void check_placed() {
  using enum operation::misplacement;
  static_assert(
      What != cut_of_whole,
      "this operation needs all of an index that an operand is cut along, but each rank has only a "
      "part of it; use a form whose input is invariant, or is cut along another dimension");
  static_assert(What != cut_otherwise,
                "an operand of this operation is cut along a dimension that has one element "
                "according to its index, or into parts other than those in the index ('3h' means "
                "three parts side by side); correct the form, or the indices");
  static_assert(What != unlike_cut,
                "one operand of this operation is cut along an index, but the placement of another "
                "operand does not fit: each operand that has the index must be cut along it, too. "
                "An operand that is read and lacks the index must be replicate, or invariant if it "
                "has no gradient; correct the placements in the form");
  static_assert(
      What != unreduced,
      "a result of this operation lacks the index that an operand is cut along, so each rank "
      "computes a part of a sum or maximum: the result must be partial, or partial_max; correct "
      "the form or the use<...> of the parameter, or write ops.over_columns<plait::partial>(x, "
      "slot) for a sum, ops.over_columns<plait::partial_max>(x, slot) for a maximum");
  static_assert(What != mixed,
                "some operands of this operation are replicate and others invariant, so that one "
                "gradient would be complete and the other a summand; write one of the two "
                "placements for all these operands in the form");
  static_assert(
      What != of_summands,
      "an operand of this operation is partial (a sum or maximum still to be made), and the "
      "operation is not linear in it, or another operand does not fit (a replicate operand would "
      "be counted once for each rank); write ops.move<plait::invariant>(view) first. For a "
      "parameter, write once<...> in the form. In your own indices, declare 'linear all', 'linear "
      "each', 'linear first' or 'linear last'");
  static_assert(What != not_summed,
                "a result of this operation is not partial, but an operand in which the operation "
                "is linear is partial, so each rank computes a summand of the result; use a form "
                "in which this result or gradient is partial");
}
/// The name of operand `Number` of an operation.
template <class Row, int Number>
inline constexpr auto operand_text = [] {
  constexpr operation::operand_name name = Row::is.name_of(Number);
  printed_text<std::size_t(name.size) + 1> out;
  for (int i = 0; i < name.size; ++i) out.characters[i] = name.begin[i];
  return out;
}();
// The checks below are constants: if a function fails during evaluation, g++ prints all its
// template arguments, which are the types of all views.
/// `Operand`: the number of the operand in the signature of the operation.
template <operation::misplacement What, int Operand, class Row>
inline constexpr bool sound_operand = (check_placed<What, operand_text<Row, Operand>, Row>(), true);
template <int Operand, class Row>
inline constexpr bool sound_operand<operation::misplacement::none, Operand, Row> = true;

template <class Row, placement... At>
consteval operation::judgment judge_places() {
  constexpr placement places[]{At...};
  return judge(Row::is, places);
}
/// True if the placements `At`, in the order of the operation's operands, are sound for the
/// operation; otherwise fails to compile.
template <class Row, placement... At>
inline constexpr bool sound_places =
    sound_operand<judge_places<Row, At...>().what, judge_places<Row, At...>().operand, Row>;

template <class Row, bool HasEach>
consteval void check_operand_count() {
  static_assert(HasEach,
                "this operation takes another number of views: pass one view for each operand that "
                "plait/operation/rows.hpp lists for it, in that order. Only matrix products accept "
                "plait::transposed views, and y or dx of a layer with takes_epilogue");
}
template <class Row, bool HasEach>
inline constexpr bool has_sound_count = (check_operand_count<Row, HasEach>(), true);

/// The result of comparing the arguments of a call with an operation or with indices. `has_each`:
/// there is one argument for each operand; `can_write`: no result has const elements.
struct judged_row {
  bool has_each, can_write;
  operation::judgment judged;
};
template <class Indices, class... Arguments>
constexpr judged_row judge_operands(operation::signature const& of,
                                    indexed_arguments<Arguments...> const& indexed,
                                    Indices const& row) {
  bool const has_each = indexed.count == of.count;
  return {has_each, indexed.can_write, has_each ? judge(row, indexed.at) : operation::judgment{}};
}
template <class Row, judged_row Of>
inline constexpr bool sound_judged_row =
    has_sound_count<Row, Of.has_each> &&
    sound_written<std::conditional_t<Of.can_write, int, int const>> &&
    sound_operand<Of.judged.what, Of.judged.operand, Row>;
template <class Row, class... Arguments>
inline constexpr bool sound_row = sound_judged_row<
    Row, judge_operands(operation::indices_of<Row>,
                        indexed_arguments<Arguments...>(operation::indices_of<Row>), Row::is)>;

/// Fails to compile if ops.run is called with an operation that has its own function in ops.
/// `IsPart`: true if that function checks requirements that the indices of the operation do not
/// express.
template <class Row, bool IsPart>
consteval void check_own_row() {
  static_assert(!IsPart,
                "ops.run(row, ...): the indices of this row do not express all requirements of the "
                "operation; call the function of ops that belongs to the row, such as ops.max_pool "
                "or ops.attention");
}
template <class Row, bool IsPart>
inline constexpr bool sound_own_row = (check_own_row<Row, IsPart>(), true);

/// Fails to compile if an operand is not in the memory of this device. `IsHere`: true if it is.
template <class View, bool IsHere>
consteval void check_memory() {
  static_assert(IsHere,
                "an operand is a view of memory that does not belong to this device, such as host "
                "memory; copy the values to this device first, or pass a view that belongs to l");
}
template <class View, bool IsHere>
inline constexpr bool sound_memory = (check_memory<View, IsHere>(), true);

template <class Row, bool HasKernel>
consteval void check_kernel() {
  static_assert(
      HasKernel,
      "this device has no kernel for an operation of this layer, or none for elements of these "
      "types; write `void run(plait::operation::NAME, operands..., numbers...) const` in the queue "
      "of the device, or leave the layer out of models for this device");
}
template <class Row, bool HasKernel>
inline constexpr bool sound_kernel = (check_kernel<Row, HasKernel>(), true);

/// Represents the operation in compiler messages about a call that contains indices instead of an
/// operation. This name does not contain the indices, because the message shows the call.
struct indices_of_call {};
template <bool HasEach, bool CanWrite>
consteval void check_run_by_indices() {
  static_assert(HasEach,
                "ops.run<indices>(kernel, views...): the number of operands in the indices is not "
                "the number of views; write the indices of each view in the order of the call, but "
                "none for tokens: ops.template run<\"r i, i j -> r j\">(kernel, x, w, y)");
  static_assert(!HasEach || CanWrite,
                "ops.run<indices>(kernel, views...): a view whose indices are after '->' has const "
                "elements, so the kernel cannot write to it; pass the views that are read first, "
                "or pass a view whose elements are not const");
}
template <judged_row Of>
inline constexpr bool sound_judged_indices =
    (check_run_by_indices<Of.has_each, Of.can_write>(),
     check_placed<Of.judged.what, printed_text<2>{{char('1' + Of.judged.operand)}},
                  indices_of_call>(),
     true);
/// True if the placements of the views fit the indices `Of` of a call ops.run<indices>(kernel,
/// views...); otherwise fails to compile.
template <operation::signature Of, class... Views>
inline constexpr bool sound_run_by_indices =
    sound_judged_indices<judge_operands(Of, indexed_arguments<Views...>(Of, false), Of)>;

/// Returns true if ops.move<To>(x), for an x with placement `From`, reduces values over ranks;
/// false if it changes only the type of the view.
template <placement From, placement To>
consteval bool moves_values() {
  constexpr ext::transition row = ext::transition_between(From, To);
  static_assert(
      row.allowed() && (row.moves == ext::local_move::none || reduces_in_place(row.moves)),
      "ops.move<To>(x): inside a layer, ops.move works in place and cannot make this transition; "
      "write a transition that works in place, such as partial -> invariant or partial -> "
      "replicate");
  return row.moves != ext::local_move::none;
}

template <placement At, placement Gradient>
consteval void check_gradient() {
  static_assert(
      Gradient == ext::dual(At),
      "a gradient must have the dual placement of its value: replicate becomes partial, partial "
      "becomes replicate, and all other placements stay the same; correct the form");
}
template <placement At, placement Gradient>
inline constexpr bool sound_gradient = (check_gradient<At, Gradient>(), true);

template <placement Matrix>
consteval void check_whole_rows() {
  static_assert(
      ext::is_whole(Matrix) || is_rows(Matrix),
      "ops.rows(f, ...): f reads whole rows, and a matrix that is cut by columns or partial has no "
      "whole rows; use a form whose input is invariant or cut by positions");
}
template <placement Matrix>
inline constexpr bool sound_whole_rows = (check_whole_rows<Matrix>(), true);

}  // namespace plait::typing
