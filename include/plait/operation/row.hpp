// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>

#include "plait/operation/signature.hpp"

namespace plait::operation {

/// The name of an operand: a range of characters within the text of the operation.
struct operand_name {
  char const* begin;
  int size;
};

/// A declaration of an operation for which devices have kernels: its name, used in errors and
/// profilers, and the indices of its operands. The placements and shapes that operands may have,
/// and the memory that a device reads and writes, follow from the indices. For example,
/// row{"matmul", "a(m k), b(k n) -> out(m n); linear each", 2} is a matrix product with 2 FLOPs for
/// each combination of m, k and n.
struct row {
  char const* name;
  char const* text;  ///< the operands with their indices, in the notation of `signature`
  double flops = 0;  ///< FLOPs for each combination of the indices; layers compute their
                     ///< flops_per_row from it
  /// Alternative indices that the operation accepts as well; null if none.
  char const* others = nullptr;

  // NOLINTNEXTLINE: implicit, as a row represents its indices
  constexpr operator signature() const { return signature::of(text); }
  /// Returns the name of operand `number`, which the text contains in front of the operand's
  /// indices, or "an operand" if it has no name.
  [[nodiscard]] constexpr operand_name name_of(int number) const {
    char const* at = text;
    for (; number > 0 && *at != 0; ++at) number -= *at == ')' ? 1 : 0;
    while (*at != 0 && (*at < 'a' || *at > 'z')) ++at;
    operand_name out{at, 0};
    while (at[out.size] == '_' || (at[out.size] >= 'a' && at[out.size] <= 'z')) ++out.size;
    return at[out.size] == '(' ? out : operand_name{"an operand", 10};
  }
};

/// Checks the placements `at` of the operands against the row's indices and, if these do not fit,
/// against the row's alternative indices. Returns misplacement::none if the placements fit one of
/// the two.
constexpr judgment judge(row const& of, placement const* at) {
  judgment const first = judge(signature::of(of.text), at);
  if (first.what == misplacement::none || of.others == nullptr) return first;
  judgment const other = judge(signature::of(of.others), at);
  // If neither fits, the result is the fault of the indices that accept more operands, because
  // these indices were probably meant.
  return other.what == misplacement::none || other.operand > first.operand ? other : first;
}

/// A type that represents an operation in calls and as a template argument.
///
/// Syntax:  R::is, the row; R::adjoints, an adjoints_of<...>, if layers need its gradients.
/// Meaning: a queue executes the operation by run(R{}, operands..., numbers...), with operands in
///          the order of the declaration.
template <class R>
concept is_row = requires {
  { R::is } -> std::same_as<row const&>;
};

/// The signature of an operation: its text, parsed at compile time.
template <is_row R>
inline constexpr signature indices_of = signature::of(R::is.text);

/// The operations that compute the gradients of an operation. The operands of these operations are
/// found by name: "x" is the operand x of the differentiated operation, "dy" is the gradient of its
/// result y, and "dx", which is written, is the gradient of x.
template <is_row... Rows>
struct adjoints_of {};

/// The rules that determine the lengths of all dimensions of the operands: a dimension is as long
/// as the first earlier dimension, of this or an earlier operand, that has the same index.
struct shape_rule {
  struct length {
    int operand = -1;  ///< operand of the earlier dimension; -1: there is no index, and the length
                       ///< is `parts`; -2: no earlier dimension has the index
    int dimension = 0;
    int of_parts = 1;  ///< number of parts of the earlier dimension
    int parts = 1;     ///< number of parts of this dimension
  };
  length of[signature::most_operands][2];

  constexpr explicit shape_rule(signature const& by) {
    for (int i = 0; i < by.count; ++i)
      for (int d = 0; d < 2; ++d) {
        auto const& mine = by.dimension_of(i, d);
        of[i][d].parts = mine.parts;
        if (mine.index != '1') of[i][d] = find(by, i, d, mine);
      }
  }

 private:
  static constexpr length find(signature const& by, int i, int d, dimension const& mine) {
    for (int j = 0; j <= i; ++j)
      for (int e = 0; e < 2; ++e) {
        if (j == i && e >= d) break;
        auto const first = by.dimension_of(j, e);
        if (first.index == mine.index) return {j, e, first.parts, mine.parts};
      }
    return {-2, 0, 1, mine.parts};
  }
};

}  // namespace plait::operation
