// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/core/macros.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/layer/typing.hpp"
#include "plait/placement/placement.hpp"
#include "plait/tensor/view.hpp"

namespace plait::execution {

/// What a product takes: a view as it is, or transposed.
template <class View>
struct operand {
  static constexpr bool is_transposed = false;
  static constexpr placement at = View::at;
  static View const& of(View const& x) { return x; }
};
template <class View>
struct operand<transposed_view<View>> {
  static constexpr bool is_transposed = true;
  static constexpr placement at = typing::transpose(View::at);
  static View const& of(transposed_view<View> const& x) { return x.of; }
};

/// Gives the number of the row to a function that devices call for each row of a matrix.
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

/// The view that an operation gets which only reads it.
template <bool IsRead, class View>
auto in_role(View const& of) {
  if constexpr (IsRead)
    return view<typename View::element const, View::at, typename View::memory>{of.data, of.rows,
                                                                               of.columns};
  else return of;
}

/// Returns the view that a product writes, given y or dx as a layer with `takes_epilogue` got it.
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
