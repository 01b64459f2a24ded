// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/formula/node.hpp"
#include "plait/operation/rows.hpp"

/// Declarations (rows) of the operations that nodes represent. A row declares how ranks may cut an
/// operation: along which indices, and which of these indices each rank needs whole. It also
/// declares the operands in which the operation is linear, so that its result for a summand is a
/// summand. The forms of a formula follow from the rows of its nodes.
///
/// Example: softmax is "x(r c) -> y(r c); whole c". Ranks may cut its rows. They may not cut c, and
/// x may not be partial, because softmax is linear in no operand.
///
/// Operations of operation/rows.hpp have their rows there. The operations of formula/kernels.hpp,
/// which consist of several calls or of a function of each row, have their rows here.
namespace plait::formula {

namespace node_rows {

using operation::row;

/// The row of a node that has no operands or is an elementwise function. It is an object and not a
/// null pointer: with -fsanitize=undefined, g++ does not take `&row == nullptr` for a constant.
inline constexpr row none{"none", ""};
inline constexpr row multiply{"multiply", "a(r c), b(r c) -> y(r c); linear each"};
inline constexpr row reduce{"reduce", "x(r c) -> y(r 1); linear all"};
inline constexpr row sum_of_factors{"sum_of_factors", "x(r c) -> y(r d); linear all"};
inline constexpr row broadcast{"broadcast", "x(r 1) -> y(r c); linear all"};
/// Operations that copy elements: a reshape of the columns, a piece of the columns, or pieces side
/// by side.
inline constexpr row move{"move", "x(r c) -> y(r d); linear all"};
/// A contraction. The row declares only that each rank needs all positions; the letters of the
/// contraction tell which of its dimensions are equal.
inline constexpr row contract{"contract", "a(r c), b(r d) -> y(r e); whole r; linear each"};
inline constexpr row softmax{"softmax", "x(r c) -> y(r c); whole c"};
inline constexpr row softmax_gradient{"softmax_gradient",
                                      "y(r c), dy(r c) -> dx(r c); whole c; linear last"};
inline constexpr row log_sum_exp{"log_sum_exp", "x(r c) -> y(r 1); whole c"};
inline constexpr row log_sum_exp_gradient{
    "log_sum_exp_gradient", "x(r c), y(r 1), dy(r 1) -> dx(r c); whole c; linear last"};
inline constexpr row maximum{"maximum", "x(r c) -> y(r 1); whole c"};
inline constexpr row maximum_gradient{"maximum_gradient",
                                      "x(r c), dy(r 1) -> dx(r c); whole c; linear last"};
inline constexpr row pick{"pick", "x(r c), #ids(r 1) -> y(r 1); whole c; linear first"};
inline constexpr row pick_gradient{"pick_gradient",
                                   "#ids(r 1), dy(r 1) -> dx(r c); whole c; linear last"};
inline constexpr row shift{"shift", "x(r c) -> y(r c); whole r; linear all"};
inline constexpr row scan{"scan", "a(r c), x(r c) -> h(r c); whole r; linear last"};
/// A scan whose decay is a number.
inline constexpr row scan_by_number{"scan", "x(r c) -> h(r c); whole r; linear all"};
inline constexpr row across{"across", "x(r c) -> y(r d); whole r; linear all"};

}  // namespace node_rows

/// Returns the row of a node; node_rows::none if the node has no operands or is an elementwise
/// function. The degree of an elementwise function tells in which operands it is linear
/// (formula/degrees.hpp).
constexpr operation::row const* row_of_node(node const& of) {
  switch (of.kind) {
    case node_kind::none:
    case node_kind::input:
    case node_kind::parameter:
    case node_kind::number:
    case node_kind::index_function:
    case node_kind::draw:
    case node_kind::output_gradient:
    case node_kind::seed:
    case node_kind::map:
    case node_kind::slope:
    case node_kind::result: return &node_rows::none;  // a result has the row of its call
    case node_kind::product:
    case node_kind::weight_gradient: return &operation::matmul::is;
    case node_kind::add: return &operation::add::is;
    case node_kind::multiply: return &node_rows::multiply;
    case node_kind::broadcast: return &node_rows::broadcast;
    case node_kind::reduce: return &node_rows::reduce;
    case node_kind::sum_of_factors: return &node_rows::sum_of_factors;
    case node_kind::column_sum: return &operation::accumulate_column_sums::is;
    case node_kind::reshape:
    case node_kind::part:
    case node_kind::concat: return &node_rows::move;
    case node_kind::contract: return &node_rows::contract;
    case node_kind::attention: return &operation::attention::is;
    case node_kind::attention_gradient: return &operation::attention_backward::is;
    case node_kind::softmax: return &node_rows::softmax;
    case node_kind::softmax_gradient: return &node_rows::softmax_gradient;
    case node_kind::shift: return &node_rows::shift;
    case node_kind::scan:
    case node_kind::scan_gradient:
      return of.count == 1 ? &node_rows::scan_by_number : &node_rows::scan;
    case node_kind::across:
    case node_kind::across_gradient: return &node_rows::across;
    case node_kind::log_sum_exp: return &node_rows::log_sum_exp;
    case node_kind::log_sum_exp_gradient: return &node_rows::log_sum_exp_gradient;
    case node_kind::maximum: return &node_rows::maximum;
    case node_kind::maximum_gradient: return &node_rows::maximum_gradient;
    case node_kind::pick: return &node_rows::pick;
    case node_kind::pick_gradient: return &node_rows::pick_gradient;
    case node_kind::call: return of.row;
  }
  return &node_rows::none;
}
/// Returns true if a row declares the operands of its node.
constexpr bool has_operands(operation::row const& of) { return of.text[0] != '\0'; }

}  // namespace plait::formula
