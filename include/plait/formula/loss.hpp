// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "plait/core/error.hpp"
#include "plait/core/macros.hpp"
#include "plait/formula/facts.hpp"
#include "plait/layer/layer_checks.hpp"
#include "plait/layer/value.hpp"
#include "plait/run/context.hpp"

/// Losses that are written as formulas. This file decides which rows of a batch count in the loss,
/// and by which factor the gradient of each row is multiplied.
///
/// Example: cross_entropy(x, ids) returns one number for each row. A row whose target is
/// ext::ignored_target does not count: its term and its gradient are 0. Each other row has the
/// factor 1 / (number of rows that count), times its weight if the loss is weighted.
namespace plait::formula {

/// The types and the number of the targets of the loss L, and the function that tells if a row does
/// not count in the loss because its targets are missing.
template <class L>
struct loss_targets {
  using facts = formula_facts<L>;
  static constexpr int width = facts::table.at[facts::table.inputs[1]].width();
  static constexpr std::int32_t ignored = [] {
    if constexpr (requires { L::ignored; }) return std::int32_t{L::ignored};
    else return ext::ignored_target;
  }();

  /// Returns true if all targets of a row are missing; such a row does not count. An integer is
  /// missing if it is `ignored` or ext::ignored_target, and a real number if it is NaN.
  template <class T>
  PLAIT_HOST_DEVICE static bool are_missing(T const* of_row) {
    for (int c = 0; c < width; ++c) {
      if constexpr (std::is_integral_v<T>) {
        if (of_row[c] != ignored && of_row[c] != ext::ignored_target) return false;
      } else if (!std::isnan(of_row[c])) {
        return false;
      }
    }
    return true;
  }
};

/// Writes the factor by which the gradient of each row's term is multiplied; 0 for a row that does
/// not count.
template <class Targets>
struct seed_of_row {
  static constexpr bool takes_row = true;
  loss_seed seed;

  template <class T>
  PLAIT_HOST_DEVICE void operator()(std::size_t row, std::size_t, T* made) const {
    *made = static_cast<T>(static_cast<accumulate_t<T>>(seed.at(row)));
  }
  template <class T, class Target>
  PLAIT_HOST_DEVICE void operator()(std::size_t row, std::size_t columns, T* made,
                                    Target const* targets) const {
    if (Targets::are_missing(targets)) *made = T{0};
    else (*this)(row, columns, made);
  }
};
/// Sets the term of a row that does not count to 0, even if it is NaN or infinite.
template <class Targets>
struct clear_term {
  template <class T, class Target>
  PLAIT_HOST_DEVICE void operator()(std::size_t, T* term, Target const* targets) const {
    if (Targets::are_missing(targets)) *term = T{0};
  }
};
/// Sets the gradient of a row to 0 if the row does not count, has no sample or has the weight 0.
template <class Targets>
struct clear_gradient {
  static constexpr bool takes_row = true;
  loss_seed seed;

  template <class T, class Target>
  PLAIT_HOST_DEVICE void operator()(std::size_t row, std::size_t columns, T* dx,
                                    Target const* targets) const {
    if (seed.at(row) != 0 && !Targets::are_missing(targets)) return;
    for (std::size_t c = 0; c < columns; ++c) dx[c] = T{0};
  }
};

/// The number of columns from which the loss L picks the column that the target of the row names.
/// If there are several such picks, the smallest number; if there is no pick, 0.
template <class L>
inline constexpr std::size_t picked_classes = [] {
  auto const& g = formula_facts<L>::table;
  int out = 0;
  for (int i = 0; i < g.forward_size; ++i) {
    node const& n = g.at[i];
    if (n.kind != node_kind::pick || n.operands[1] != g.inputs[1]) continue;
    int const columns = g.at[n.operands[0]].width();
    if (out == 0 || columns < out) out = columns;
  }
  return std::size_t(out);
}();

template <class L>
struct formula_layer;

/// Gives a loss the member function `count`.
template <class L>
struct formula_count {
  using count_refuses_labels = formula_layer<L>;
  using targets = loss_targets<L>;

  /// Returns the number of rows that count: the rows with at least one target that is not missing.
  ///
  /// Errors: input_error for a label that is not the number of a column.
  template <class T>
  static std::int64_t count(std::span<T const> all) {
    std::int64_t rows = 0;
    for (std::size_t at = 0; at < all.size(); at += std::size_t(targets::width)) {
      if (targets::are_missing(&all[at])) continue;
      if constexpr (picked_classes<L> > 0)
        if (all[at] < 0 || std::size_t(all[at]) >= picked_classes<L>)
          throw input_error({"a loss that is a formula: label ", all[at], " is not one of the ",
                             picked_classes<L>, " columns that it picks from"});
      ++rows;
    }
    return rows;
  }
};
template <class L>
  requires(plait::detail::has_count<L>())
struct formula_count<L> {
  static auto count(auto targets) -> decltype(L::count(targets)) { return L::count(targets); }
};

/// Gives a loss the number of its classes. Trainers refuse labels that are not below this number.
template <class L, bool HasClasses>
struct formula_classes {};
template <class L>
struct formula_classes<L, true> {
  static constexpr std::size_t classes = [] {
    if constexpr (requires { L::classes; }) return std::size_t{L::classes};
    else return picked_classes<L>;
  }();
  static_assert(picked_classes<L> == 0 || classes <= picked_classes<L>,
                "this loss has more `classes` than columns from which it picks one by its target; "
                "write the number of columns, or less");
};

/// The members of a layer that adds a term to the loss.
template <class L, bool IsLoss, bool HasTerm>
struct formula_loss {};
template <class L>
struct formula_loss<L, false, true> {
  static constexpr bool adds_to_loss = true;
};
template <class L>
struct formula_loss<L, true, true>
    : formula_count<L>, formula_classes < L, (picked_classes<L> > 0) || requires {
  L::classes;
}> {
  static constexpr bool takes_weights = true;
};

}  // namespace plait::formula
