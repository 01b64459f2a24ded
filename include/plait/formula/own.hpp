// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>

#include "plait/formula/node.hpp"
#include "plait/formula/term.hpp"
#include "plait/layer/parameter.hpp"
#include "plait/operation/row.hpp"

/// Operations that a program defines for its formulas. The type of such an operation is both a
/// declaration (row) and a kernel.
namespace plait::formula {

/// A base class with a call operator. If a type T that inherits it has another call operator,
/// &T::operator() is ambiguous.
struct called {
  void operator()() const;
};
template <class Row>
struct called_twice : Row, called {};

/// A declaration of an operation that is also its kernel: it has a call operator like the kernels
/// that `ops.run` takes.
template <class Row>
concept is_own_row = operation::is_row<Row> && !requires { &called_twice<Row>::operator(); };

// The check is made through the constant sound_device, so that compilers do not print the types of
// all views before the message.
template <class Row, bool HasKernel>
consteval void check_device() {
  static_assert(
      HasKernel,
      "own(row, operands...): the row has no kernel for this device, or none for these operands; "
      "declare `void operator()(QUEUE const& queue, auto x, auto y) const` in the type of the row, "
      "with the queue type of the device, or do not use the layer on this device");
}
template <class Row, bool HasKernel>
inline constexpr bool sound_device = (check_device<Row, HasKernel>(), true);

/// Calls the kernel of a row that the program declares. This type is not a row itself, so a queue
/// runs it as a kernel.
template <class Row>
struct kernel_of_row {
  template <class Queue, class... Views>
  void operator()(Queue const& queue, Views... views) const {
    constexpr bool has_kernel = std::is_invocable_v<Row const&, Queue const&, Views&...>;
    static_assert(sound_device<Row, has_kernel>);
    if constexpr (has_kernel) Row{}(queue, views...);
  }
};

/// The rules for the indices of the operations (rows) that a program declares for formulas. The
/// rules follow from the checks of a formula and from the contract of its layer: no row of an
/// activation depends on another row.
namespace own_rules {

constexpr int reads_of(operation::signature const& by) {
  int out = 0;
  while (out < by.count && !by.operands[out].is_written) ++out;
  return out;
}
constexpr bool is_same(operation::operand const& a, operation::operand const& b) {
  return a.rows.index == b.rows.index && a.rows.parts == b.rows.parts &&
         a.columns.index == b.columns.index && a.columns.parts == b.columns.parts;
}
constexpr bool is_whole(operation::signature const& by, char index) {
  return index != '1' && ((by.whole | by.maximum) & operation::signature::bit(index)) != 0;
}

/// Returns true if each result has a row for each row of the first operand, and has either the
/// columns of an operand or a single column. Also requires that all operands have gradients and
/// that no index has parts.
constexpr bool makes_rows(operation::row const& row) {
  auto const by = operation::signature::of(row.text);
  int const reads = reads_of(by);
  if (reads == 0 || by.count == reads || row.others != nullptr) return false;
  char const r = by.operands[0].rows.index;
  if (r == '1' || is_whole(by, r)) return false;
  for (int k = 0; k < by.count; ++k) {
    operation::operand const& each = by.operands[k];
    if (each.is_constant || each.is_added_to || each.rows.parts > 1) return false;
    if (each.columns.index == r || (each.columns.index != '1' && each.columns.parts > 1))
      return false;
    if (k < reads) continue;
    bool is_known = each.columns.index == '1' && (k > reads || each.columns.parts == 1);
    for (int j = 0; j < reads; ++j)
      is_known = is_known || each.columns.index == by.operands[j].columns.index ||
                 each.columns.index == by.operands[j].rows.index;
    if (each.rows.index != r || !is_known) return false;
  }
  return true;
}
/// Returns true if all activations have the row index of the first operand, and no parameter has
/// it.
constexpr bool has_operands(operation::signature const& by, bool const* is_parameter) {
  for (int k = 0; k < reads_of(by); ++k)
    if ((by.operands[k].rows.index == by.operands[0].rows.index) == is_parameter[k]) return false;
  return true;
}
/// Returns true if `adjoint`, which computes gradients of `row`, fits `row`. Operands that both
/// have must have the same indices. An index may be whole in `adjoint` only if it is whole in
/// `row`. The adjoint may add only to gradients of parameters.
constexpr bool is_like(operation::row const& row, operation::row const& adjoint,
                       bool const* is_parameter) {
  auto const by = operation::signature::of(row.text), of = operation::signature::of(adjoint.text);
  if (adjoint.others != nullptr || ((of.whole | of.maximum) & ~(by.whole | by.maximum)) != 0)
    return false;
  bool const adds = of.operands[of.count - 1].is_added_to;
  for (int k = 0; k < of.count; ++k) {
    bool const is_written = of.operands[k].is_written;
    int place = is_written ? -1 : find_operand(row, adjoint.name_of(k), 0);
    if (place < 0) place = find_operand(row, adjoint.name_of(k), 1);
    if (place < 0 || !is_same(of.operands[k], by.operands[place])) return false;
    if (is_written && (place >= reads_of(by) || is_parameter[place] != adds ||
                       of.operands[k].is_added_to != adds))
      return false;
  }
  return true;
}
/// Returns true if the adjoints `Rows` together compute the gradient of each operand of `row`
/// exactly once.
template <class... Rows>
constexpr bool has_each_gradient(operation::row const& row, operation::adjoints_of<Rows...>) {
  for (int k = 0; k < reads_of(operation::signature::of(row.text)); ++k) {
    int found = 0;
    auto const count = [&](operation::row const& adjoint) {
      auto const by = operation::signature::of(adjoint.text);
      for (int j = 0; j < by.count; ++j)
        found += by.operands[j].is_written && find_operand(row, adjoint.name_of(j), 1) == k ? 1 : 0;
    };
    (count(Rows::is), ...);
    if (found != 1) return false;
  }
  return true;
}
template <class... Rows>
constexpr bool are_like(operation::row const& row, operation::adjoints_of<Rows...>,
                        bool const* is_parameter) {
  return (is_like(row, Rows::is, is_parameter) && ...);
}
template <class... Rows>
constexpr bool are_kernels(operation::adjoints_of<Rows...>) {
  return (is_own_row<Rows> && ...);
}

template <class T>
inline constexpr bool is_parameter = false;
template <ext::name Label, class Extents, initializer Initial, std::size_t Padding, class InFiles>
inline constexpr bool is_parameter<parameter<Label, Extents, Initial, Padding, InFiles>> = true;

/// Checks the declaration (row) of a program's operation and its operands. Fails to compile, with a
/// text that describes the mistake, if they do not fit.
template <class Row, class... Operands>
consteval bool check() {
  constexpr bool is_kernel = is_own_row<Row>;
  static_assert(
      is_kernel,
      "own(row, operands...): the row has no kernel; declare in its type `static constexpr "
      "plait::operation::row is{name, indices}` and `void operator()(auto const& queue, auto x, "
      "auto y) const`, which is called with the views of the operands and results");
  if constexpr (is_kernel) {
    constexpr bool has_adjoints = requires { typename Row::adjoints; };
    static_assert(
        has_adjoints,
        "own(row, operands...): the row has no gradients; declare in its type `using adjoints = "
        "plait::operation::adjoints_of<A, B>;`, with the rows that compute the gradients");
    constexpr auto by = operation::signature::of(Row::is.text);
    constexpr bool fits = sizeof...(Operands) == std::size_t(reads_of(by));
    static_assert(
        fits,
        "own(row, operands...): the indices of the row list more or fewer operands before '->' "
        "than the call has; pass one value for each listed operand, in the same order");
    static_assert(
        makes_rows(Row::is),
        "own(row, operands...): the indices of the row do not fit into a formula; "
        "a result must have the rows of the first operand and the columns of an operand, as in "
        "\"x(r i), w(i j) -> y(r j)\"; leave out '#', '+', parts, and `whole` for the rows");
    if constexpr (has_adjoints && fits) {
      using adjoints = typename Row::adjoints;
      constexpr bool is_given[]{is_parameter<Operands>...};
      static_assert(has_operands(by, is_given),
                    "own(row, operands...): operands with the row index of the first operand must "
                    "be activations, and all other operands must be parameters; correct the "
                    "indices or the operands");
      static_assert(are_kernels(adjoints{}),
                    "own(row, operands...): a row of `adjoints` has no kernel; declare in its type "
                    "`static constexpr plait::operation::row is{...}` and `void operator()(auto "
                    "const& queue, auto dy, auto w, auto dx) const`");
      if constexpr (are_kernels(adjoints{})) {
        static_assert(has_each_gradient(Row::is, adjoints{}),
                      "own(row, operands...): the rows of `adjoints` must compute the gradient of "
                      "each operand exactly once; write \"-> dx(r i)\" for an activation x, and "
                      "\"-> +dw(i j)\" for a parameter w");
        static_assert(are_like(Row::is, adjoints{}, is_given),
                      "own(row, operands...): a row of `adjoints` does not fit the row. Use the "
                      "names and indices of the row, such as \"dy(r j), w(i j) -> dx(r i)\", "
                      "declare no index `whole` that is not whole in the row, and write '+' only "
                      "for gradients of parameters, such as \"+dw(i j)\"");
      }
    }
  }
  return true;
}

}  // namespace own_rules

/// Returns the result of an operation that the program defines, computed by the program's kernel.
///
/// Shapes: as the indices of `row` declare. The first result is the value of the term; further
///         results are kept for the rows of `adjoints` that read them.
/// Errors: a row without a kernel or gradients, or with indices that do not fit, does not compile.
template <class Row, operand... Operands>
constexpr auto own(Row, Operands...) {
  static_assert(own_rules::check<Row, Operands...>());
  return term<op::call<Row>, Operands...>{};
}

}  // namespace plait::formula
