// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/formula/graph.hpp"

/// The degree of each elementwise function as a polynomial of its partial operands. An operand is
/// partial if each rank has a summand of it.
///
/// A sum of summands is a summand, and so is a summand times a number that all ranks have. A
/// function of degree 1 in all partial operands therefore has a partial result. Any other function
/// needs the complete sum first.
///
/// Example: with x partial, 2 x has degree 1, x x and exp(x) have another degree, and so has x + b,
/// because each rank would add b once. If b is a parameter that no other node reads, one rank adds
/// it, and x + b has degree 1.
namespace plait::formula {

/// The degree of a value as a polynomial of the operands that are partial.
enum class degree : int { zero, none, linear, other };

constexpr degree times(degree a, degree b) {
  if (a == degree::zero || b == degree::zero) return degree::zero;
  if (a == degree::none) return b;
  return b == degree::none ? a : degree::other;
}
constexpr degree plus(degree a, degree b) {
  if (a == degree::zero) return b;
  if (b == degree::zero) return a;
  return a == b ? a : degree::other;
}
constexpr degree through(degree a) {
  return a == degree::zero || a == degree::none ? a : degree::other;
}

/// Finds the degrees of maps and of their derivatives.
template <class Graph>
struct summand_degrees {
  Graph const& g;
  bool const* is_partial;  ///< for each node, true if it is partial
  unsigned once = 0;       ///< a bit for each parameter that a single rank adds to a sum

  /// Returns true if a single rank can add the parameter to a sum, because no other node reads it,
  /// and records the parameter in `once`.
  constexpr bool enters_once(int value) {
    int const row = g.row_of(value);
    if (row < 0 || g.readers(row) != 1 || g.readers(value) != 1) return false;
    once |= 1u << g.at[row].number;
    return true;
  }
  /// Returns the degree of a map or, if `by` is an operand, the degree of the map's derivative with
  /// respect to this operand.
  constexpr degree of_map(int map, int by = -1) {
    auto const functions = g.functions_of(map);
    degree value[Graph::function_list::most]{}, slope[Graph::function_list::most]{};
    for (int i = 0; i < functions.count; ++i) {
      node const& n = g.at[functions.at[i]];
      degree v[4]{}, d[4]{};
      for (int k = 0; k < n.own_count; ++k) {
        int const x = n.own[k];
        if (g.at[x].is_inlined) {
          v[k] = value[functions.place_of(x)], d[k] = slope[functions.place_of(x)];
        } else {
          v[k] = is_partial[x] ? degree::linear : degree::none;
          bool const is_by = by >= 0 && g.at[map].operands[by] == x;
          d[k] = is_by ? degree::none : degree::zero;
        }
      }
      switch (n.is) {
        case algebra::sum:
        case algebra::difference:
          value[i] = plus(v[0], v[1]), slope[i] = plus(d[0], d[1]);
          if (value[i] == degree::other)
            for (int k = 0; k < 2; ++k)
              if (v[k] == degree::none && v[1 - k] == degree::linear) enters_once(n.own[k]);
          break;
        case algebra::negation: value[i] = v[0], slope[i] = d[0]; break;
        case algebra::product:
          value[i] = times(v[0], v[1]);
          slope[i] = plus(times(d[0], v[1]), times(v[0], d[1]));
          break;
        case algebra::quotient:
          value[i] = times(v[0], through(v[1]));
          slope[i] = plus(times(d[0], through(v[1])), times(times(v[0], through(v[1])), d[1]));
          break;
        default: {
          bool is_flat = true, moves = false;
          for (int k = 0; k < n.own_count; ++k) {
            is_flat = is_flat && through(v[k]) != degree::other;
            moves = moves || d[k] != degree::zero;
          }
          value[i] = is_flat ? degree::none : degree::other;
          slope[i] = !moves ? degree::zero : value[i];
          for (int k = 0; moves && is_flat && k < n.own_count; ++k)
            if (d[k] == degree::linear || d[k] == degree::other) slope[i] = d[k];
        }
      }
    }
    return by >= 0 ? slope[functions.count - 1] : value[functions.count - 1];
  }
  /// Returns the degree of a slope node, which is a map's derivative times the gradient of the
  /// map's result.
  constexpr degree of_slope(node const& of) {
    bool const of_dy = is_partial[of.operands[of.count - 1]];
    degree const slope = of.from_output ? (is_partial[of.of] ? degree::other : degree::none)
                                        : of_map(of.of, of.number);
    return times(slope, of_dy ? degree::linear : degree::none);
  }
};

}  // namespace plait::formula
