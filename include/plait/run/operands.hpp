// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "plait/backend/matrix.hpp"
#include "plait/core/macros.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/layer/typing.hpp"
#include "plait/placement/placement.hpp"
#include "plait/tensor/view.hpp"

namespace plait::execution {

/// An operand of a matrix product: a view, and a flag that is true if the product reads the
/// transpose of the view.
template <class View>
struct operand {
  using element = std::remove_const_t<typename View::element>;
  static constexpr bool is_transposed = false;
  static constexpr placement at = View::at;
  static View const& of(View const& x) { return x; }
};
template <class View>
struct operand<transposed_view<View>> {
  using element = std::remove_const_t<typename View::element>;
  static constexpr bool is_transposed = true;
  static constexpr placement at = typing::transpose(View::at);
  static View const& of(transposed_view<View> const& x) { return x.of; }
};

/// Wraps a function that devices call for each row of a matrix: the index of the row becomes the
/// first argument of the function.
template <class Function, class T>
struct numbered_rows {
  Function f;
  T* first;
  std::size_t stride;
  template <class... Rows>
  PLAIT_HOST_DEVICE void operator()(std::size_t columns, T* row, Rows... others) const {
    f(static_cast<std::size_t>(row - first) / stride, columns, row, others...);
  }
};

/// Returns a view of const elements if the operation only reads the view, and the view itself
/// otherwise.
template <bool IsRead, class View>
auto in_role(View const& of) {
  if constexpr (IsRead)
    return view<typename View::element const, View::at, typename View::memory>{of.data, of.rows,
                                                                               of.columns};
  else return of;
}

/// Converts an argument of an operation to the form that the device's queue takes: views and tokens
/// become matrices, and other arguments are returned unchanged.
template <bool IsRead, class T, placement At, class Memory>
auto as_operand(view<T, At, Memory> const& of) {
  return matrix<std::conditional_t<IsRead, T const, T>>{of.data, of.rows, of.columns};
}
template <bool IsRead, class Memory>
matrix<std::int32_t const> as_operand(token_view<Memory> const& of) {
  return {of.data, of.rows, 1};
}
template <bool IsRead, class Other>
Other const& as_operand(Other const& of) {
  return of;
}

/// Returns the view that a product writes. `out`: a view, or the y or dx of a layer with
/// `takes_epilogue`, which also contains an operand of the epilogue.
template <class View>
View const& written_view(View const& out) {
  return out;
}
template <class View, class Function, class Kept>
View const& written_view(mapped_view<View, Function, Kept> const& out) {
  return out.of;
}
template <class View>
View const& written_view(summed_view<View> const& out) {
  return out.sum;
}

}  // namespace plait::execution
