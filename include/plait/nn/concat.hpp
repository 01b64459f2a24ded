// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <tuple>
#include <utility>

#include "plait/backend/element_place.hpp"
#include "plait/core/macros.hpp"
#include "plait/layer/layer.hpp"
#include "plait/nn/slice.hpp"

namespace plait::nn {

namespace detail {

/// Returns the element in column at.column of several rows that are placed side by side.
template <std::size_t First, std::size_t... Others>
struct side_by_side {
  static constexpr bool is_linear = true;
  template <class Row, class... Rows>
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE auto operator()(plait::ext::element_place at, Row const& row,
                                                   Rows const&... others) const {
    if constexpr (sizeof...(Others) > 0) {
      if (at.column >= First) {
        at.column -= First;
        return side_by_side<Others...>{}(at, others...);
      }
    }
    return row[at.column];
  }
};

}  // namespace detail

/// Puts the features of two to four inputs side by side, such as the outputs of a fan_out (like
/// torch.cat). For images of equal height and width it puts the channels side by side: the next
/// layer takes `image<A + B, Height, Width>`.
///
/// Shapes: input i (rows, Widths[i]), y (rows, the sum of Widths).
/// Moves:  nothing; the features are whole on every tensor rank. Partial inputs stay partial.
///
/// Example (tests/reference/names_in_use_test.cpp identity):
///     using beside_itself =  // x and f(x), side by side
///         plait::sequential<plait::fan_out<plait::nn::identity<16>, plait::nn::linear<16, 4>>,
///                           plait::nn::concat<16, 4>>;
template <std::size_t... Widths>
struct concat {
  static_assert(sizeof...(Widths) >= 2 && sizeof...(Widths) <= 4,
                "concat<Widths...>: a concat has two to four inputs, because a fan_out has at most "
                "four branches; for more inputs, nest concats");
  using concept_tag = layer_tag;
  using input = inputs<features<Widths>...>;
  using output = features<(Widths + ... + 0)>;
  using forms = plait::forms<whole, by_sequence<>, form<"summands", partial, partial>>;
  static constexpr double flops_per_row = 0;

  static void forward(auto& ops, auto const& l) {
    std::apply([&](auto const&... x) { ops.map_at(detail::side_by_side<Widths...>{}, l.y, x...); },
               l.x);
  }
  static void backward_input(auto& ops, auto const& l) {
    std::size_t first = 0;
    std::apply(
        [&](auto const&... dx) {
          (ops.map_at(detail::columns_from{std::exchange(first, first + Widths)}, dx, l.dy), ...);
        },
        l.dx);
  }
};

}  // namespace plait::nn
