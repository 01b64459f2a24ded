// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <tuple>

#include "plait/layer/layer.hpp"
#include "plait/tensor/functions.hpp"

namespace plait::nn {

namespace detail {

template <std::size_t Width, std::size_t Count>
struct equal_inputs {
  using type = features<Width>;
};
template <std::size_t Width>
struct equal_inputs<Width, 2> {
  using type = inputs<features<Width>, features<Width>>;
};
template <std::size_t Width>
struct equal_inputs<Width, 3> {
  using type = inputs<features<Width>, features<Width>, features<Width>>;
};
template <std::size_t Width>
struct equal_inputs<Width, 4> {
  using type = inputs<features<Width>, features<Width>, features<Width>, features<Width>>;
};

}  // namespace detail

/// The sum of `Count` inputs, element by element, such as the outputs of a fan_out.
///
/// Shapes: all inputs and the output (rows, Width).
/// Moves:  nothing; if the inputs are partial, the output is partial, too, so one reduction of the
///         output replaces `Count` reductions of the inputs.
template <std::size_t Width, std::size_t Count>
struct sum {
  static_assert(Count >= 2 && Count <= 4,
                "sum<Width, Count>: Count must be from 2 to 4, because a fan_out has two to four "
                "branches; for more inputs, nest sums");
  using concept_tag = layer_tag;
  using input = typename detail::equal_inputs<Width, Count>::type;
  using output = features<Width>;
  using forms = plait::forms<whole, by_features, by_sequence<>, form<"summands", partial, partial>>;
  static constexpr double flops_per_row = (Count - 1.0) * Width;

  static void forward(auto& ops, auto const& l) {
    using functions::sum;
    if constexpr (Count == 2) {
      ops.map(sum{}, std::get<0>(l.x), std::get<1>(l.x), l.y);
    } else {
      ops.map(sum{}, std::get<0>(l.x), std::get<1>(l.x), std::get<2>(l.x), l.y);
      if constexpr (Count == 4) ops.map(sum{}, l.y, std::get<3>(l.x), l.y);
    }
  }
  static void backward_input(auto& ops, auto const& l) {
    std::apply([&](auto const&... dx) { (ops.copy(l.dy, dx), ...); }, l.dx);
  }
};

}  // namespace plait::nn
