// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/core/macros.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::execution {

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

/// What a term of a row adds to a loss.
template <bool Weighted>
struct share_of_label {
  double const* share;  // in the device's memory
  template <class T, class W>
  PLAIT_HOST_DEVICE double operator()(T term, [[maybe_unused]] W weight) const {
    if constexpr (Weighted) return static_cast<double>(term) * weight * *share;
    else return static_cast<double>(term) * *share;
  }
};

}  // namespace plait::execution
