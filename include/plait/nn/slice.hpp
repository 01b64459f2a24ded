// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/backend/element_place.hpp"
#include "plait/core/macros.hpp"
#include "plait/layer/layer.hpp"

namespace plait::nn {

namespace detail {

/// An elementwise function with y[c] = x[c + first].
struct columns_from {
  static constexpr bool is_linear = true;
  std::size_t first;
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE auto operator()(plait::ext::element_place const& at,
                                                   auto const& x) const {
    return x[at.column + first];
  }
};
/// The gradient of the slice: x[c] = y[c - first] for `count` columns from `first` on, and 0 in all
/// other columns.
struct columns_at {
  static constexpr bool is_linear = true;
  std::size_t first, count;
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE auto operator()(plait::ext::element_place const& at,
                                                   auto const& y) const {
    bool const is_there = at.column >= first && at.column - first < count;
    auto const found = y[is_there ? at.column - first : 0];
    return is_there ? found : decltype(found){0};
  }
};

// Width, First and Count are template arguments, so that every compiler prints their values next to
// the message.
template <std::size_t Width, std::size_t First, std::size_t Count>
consteval void check_slice() {
  static_assert(Count > 0 && First <= Width && Count <= Width - First,
                "slice<Width, First, Count>: Count is 0, or First + Count is more than Width; set "
                "Count to a number from 1 to Width - First");
}

}  // namespace detail

/// y = x[First], ..., x[First + Count - 1]: some features of the input. For images, these are whole
/// channels if First and Count are multiples of the size of a map.
///
/// Shapes: x (rows, Width), y (rows, Count).
/// Moves:  nothing; the features are whole on every tensor rank, and a partial input stays partial.
///
/// Example (tests/reference/names_in_use_test.cpp slice):
///     using last_four = plait::nn::slice<16, 12, 4>;
template <std::size_t Width, std::size_t First, std::size_t Count>
struct slice {
  static_assert((detail::check_slice<Width, First, Count>(), true));
  using concept_tag = layer_tag;
  using input = features<Width>;
  using output = features<Count>;
  using forms = plait::forms<whole, by_sequence<>, form<"summands", partial, partial>>;
  static constexpr double flops_per_row = 0;

  static void forward(auto& ops, auto const& l) {
    ops.map_at(detail::columns_from{First}, l.y, l.x);
  }
  static void backward_input(auto& ops, auto const& l) {
    ops.map_at(detail::columns_at{First, Count}, l.dx, l.dy);
  }
};

}  // namespace plait::nn
