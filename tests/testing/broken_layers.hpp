// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "plait/core/macros.hpp"
#include "plait/layer/layer.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/tensor/view.hpp"

/// Layers with one planted mistake each, all of which compile.
namespace broken {

using namespace plait;

/// The same memory under another placement: what no honest layer does.
template <placement To, class T, placement At, class Memory>
constexpr view<T, To, Memory> retagged(view<T, At, Memory> of) {
  return {of.data, of.rows, of.columns};
}
template <class T, placement At, class Memory>
constexpr view<T const, At, Memory> read_only(view<T, At, Memory> of) {
  return of;
}

struct zero_of {
  template <class T>
  PLAIT_HOST_DEVICE constexpr T operator()(T) const {
    return T{0};
  }
};
struct twice_of {
  template <class T>
  PLAIT_HOST_DEVICE constexpr T operator()(T x) const {
    return x + x;
  }
};
struct square_of {
  template <class T>
  PLAIT_HOST_DEVICE constexpr T operator()(T x) const {
    return x * x;
  }
};
struct product_of {
  template <class T>
  PLAIT_HOST_DEVICE constexpr T operator()(T x, T dy) const {
    return x * dy;
  }
};
struct multiply_row {
  template <class T>
  PLAIT_HOST_DEVICE void operator()(std::size_t columns, T const* x, T const* w, T* y) const {
    for (std::size_t c = 0; c < columns; ++c) y[c] = x[c] * w[c];
  }
};
struct accumulate_row {
  template <class T>
  PLAIT_HOST_DEVICE void operator()(std::size_t columns, T const* x, T const* dy, T* dw) const {
    for (std::size_t c = 0; c < columns; ++c) dw[c] += x[c] * dy[c];
  }
};

/// y = w x for each row. On sequence shards every rank has a summand of dw; used as `Use` =
/// invariant instead of replicate nobody adds them up.
template <placement Use>
struct scale_rows {
  using concept_tag = layer_tag;
  using weight = parameter<"weight", extents<12>, constant(1.0)>;
  using parameters = parameter_list<weight>;
  using input = features<12>;
  using output = features<12>;
  using forms = plait::forms<whole, by_sequence<use<weight, Use>>>;
  using saved = plait::saved<input_slot>;

  static void forward(auto& ops, auto const& p, auto x, auto y, auto const&) {
    ops.rows(multiply_row{}, x, p[weight{}], y);
  }
  static void backward_input(auto& ops, auto const& p, auto const&, auto dy, auto dx) {
    ops.rows(multiply_row{}, dy, p[weight{}], dx);
  }
  static void backward_parameters(auto& ops, auto const&, auto const& saved, auto dy,
                                  auto const& dp) {
    ops.rows(accumulate_row{}, saved[input_slot{}], dy, dp[weight{}]);
  }
};
using missing_all_reduce = scale_rows<invariant>;

/// A row-split linear layer whose every rank adds the bias to its summand.
struct bias_on_every_rank {
  using concept_tag = layer_tag;
  using weight = parameter<"weight", extents<12, 8>>;
  using bias = parameter<"bias", extents<8>>;
  using parameters = parameter_list<weight, bias>;
  using input = features<12>;
  using output = features<8>;
  using forms = plait::forms<whole, row_split<split<weight, 0>, use<bias, invariant>>>;
  using saved = plait::saved<input_slot>;

  static void forward(auto& ops, auto const& p, auto x, auto y, auto const&) {
    ops.matmul(x, p[weight{}], y);
    ops.add_row(retagged<decltype(y)::at>(p[bias{}]), y);
  }
  static void backward_input(auto& ops, auto const& p, auto const&, auto dy, auto dx) {
    ops.matmul(dy, transposed(p[weight{}]), dx);
  }
  static void backward_parameters(auto& ops, auto const&, auto const& saved, auto dy,
                                  auto const& dp) {
    ops.accumulate_matmul(transposed(saved[input_slot{}]), dy, dp[weight{}]);
    ops.accumulate_column_sums(dy, retagged<decltype(dy)::at>(dp[bias{}]));
  }
};

/// dw = x^T dy where dw += x^T dy is needed.
struct overwritten_gradient {
  using concept_tag = layer_tag;
  using weight = parameter<"weight", extents<12, 8>>;
  using parameters = parameter_list<weight>;
  using input = features<12>;
  using output = features<8>;
  using saved = plait::saved<input_slot>;

  static void forward(auto& ops, auto const& p, auto x, auto y, auto const&) {
    ops.matmul(x, p[weight{}], y);
  }
  static void backward_input(auto& ops, auto const& p, auto const&, auto dy, auto dx) {
    ops.matmul(dy, transposed(p[weight{}]), dx);
  }
  static void backward_parameters(auto& ops, auto const&, auto const& saved, auto dy,
                                  auto const& dp) {
    ops.matmul(transposed(saved[input_slot{}]), dy, dp[weight{}]);
  }
};

/// y += x w without having set y.
struct unwritten_output : overwritten_gradient {
  static void forward(auto& ops, auto const& p, auto x, auto y, auto const&) {
    ops.accumulate_matmul(x, p[weight{}], y);
  }
  static void backward_parameters(auto& ops, auto const&, auto const& saved, auto dy,
                                  auto const& dp) {
    ops.accumulate_matmul(transposed(saved[input_slot{}]), dy, dp[weight{}]);
  }
};

/// A row-split layer that adds up its summands itself and does not list the move in its form.
struct unlisted_move : unwritten_output {
  using forms = plait::forms<form<"row", shard<dim::features>, invariant, split<weight, 0>>>;
  static void forward(auto& ops, auto const& p, auto x, auto y, auto const&) {
    auto const summand = retagged<partial>(y);
    ops.matmul(x, p[weight{}], summand);
    static_cast<void>(ops.template move<invariant>(summand));
  }
  static void backward_input(auto& ops, auto const& p, auto const&, auto dy, auto dx) {
    ops.matmul(retagged<replicate>(dy), transposed(p[weight{}]), dx);
  }
  static void backward_parameters(auto& ops, auto const&, auto const& saved, auto dy,
                                  auto const& dp) {
    ops.accumulate_matmul(transposed(saved[input_slot{}]), retagged<replicate>(dy), dp[weight{}]);
  }
};

/// y = x + the sum of x over all rows, as a batch norm would; forward and backward are consistent.
struct batch_sum {
  using concept_tag = layer_tag;
  using input = features<12>;
  using output = features<12>;
  using sum = slot<"sum", 0, follows::rows, 12>;
  using scratch = plait::scratch<sum>;

  static void add_sum(auto& ops, auto x, auto y, auto sums) {
    ops.map(zero_of{}, sums, sums);
    ops.accumulate_column_sums(x, sums);
    ops.copy(x, y);
    ops.add_row(read_only(sums), y);
  }
  static void forward(auto& ops, auto const&, auto x, auto y, auto const& saved) {
    add_sum(ops, x, y, saved[sum{}]);
  }
  static void backward_input(auto& ops, auto const&, auto const& saved, auto dy, auto dx) {
    add_sum(ops, dy, dx, saved[sum{}]);
  }
};

/// y = 3 x in two steps, the second of which reads x again: y must not be x.
template <bool Forward, bool Backward>
struct three_times {
  using concept_tag = layer_tag;
  using input = features<12>;
  using output = features<12>;
  static constexpr aliasing may_alias{.forward = Forward, .backward = Backward};

  static void forward(auto& ops, auto const&, auto x, auto y, auto const&) {
    ops.map(twice_of{}, x, y);
    ops.add(x, y, y);
  }
  static void backward_input(auto& ops, auto const&, auto const&, auto dy, auto dx) {
    ops.map(twice_of{}, dy, dx);
    ops.add(dy, dx, dx);
  }
};

/// y = x^2 with dx = x dy.
struct wrong_derivative {
  using concept_tag = layer_tag;
  using input = features<12>;
  using output = features<12>;
  using saved = plait::saved<input_slot>;

  static void forward(auto& ops, auto const&, auto x, auto y, auto const&) {
    ops.map(square_of{}, x, y);
  }
  static void backward_input(auto& ops, auto const&, auto const& saved, auto dy, auto dx) {
    ops.map(product_of{}, saved[input_slot{}], dy, dx);
  }
};

/// A loss that scales its gradient by something else than its value.
struct unscaled_gradient : nn::cross_entropy<12> {
  using forms = plait::forms<whole>;
  static void backward_input(auto& ops, auto l) {
    static constexpr double one = 1;
    l.dy.scale = &one;
    nn::cross_entropy<12>::backward_input(ops, l);
  }
};

/// Half the squared distance from 1 of what is in each row; with `Honest` the gradient has weights.
template <bool Honest>
struct squared_distance {
  using concept_tag = layer_tag;
  using input = inputs<features<12>, tokens>;
  using output = loss_value;
  using terms = slot<"terms", 1, slot_element::accumulate>;
  using saved = plait::saved<input_slot>;
  using scratch = plait::scratch<terms>;
  static constexpr bool takes_weights = true;

  static std::int64_t count(std::span<std::int32_t const> labels) {
    return static_cast<std::int64_t>(labels.size());
  }
  struct add_up {
    void operator()(auto const&, auto x, auto sums) const {
      for (std::size_t r = 0; r < x.rows; ++r) {
        sums.data[r] = 0;
        for (std::size_t c = 0; c < 12; ++c) {
          auto const distance = x.data[r * 12 + c] - 1;
          sums.data[r] += distance * distance / 2;
        }
      }
    }
  };
  struct differentiate {
    loss_seed seed;
    void operator()(auto const&, auto x, auto dx) const {
      for (std::size_t r = 0; r < x.rows; ++r)
        for (std::size_t c = 0; c < 12; ++c)
          dx.data[r * 12 + c] = (x.data[r * 12 + c] - 1) * (Honest ? seed.at(r) : *seed.scale);
    }
  };
  static void forward(auto& ops, auto l) {
    ops.run(add_up{}, l.x.first, l.scratch[terms{}]);
    ops.add_to_loss(l.scratch[terms{}]);
  }
  static void backward_input(auto& ops, auto l) {
    ops.run(differentiate{l.dy}, l.saved[input_slot{}].first, l.dx);
  }
};

}  // namespace broken
