// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>

#include "plait/core/error.hpp"
#include "plait/core/macros.hpp"
#include "plait/layer/layer.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/elementwise_loss.hpp"
#include "plait/run/context.hpp"
#include "plait/tensor/view.hpp"

/// Layers with one planted mistake each, all of which compile.
namespace broken {

using namespace plait;
using namespace plait::ext;

/// The same memory under another placement, which no correct layer does.
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
/// invariant instead of replicate no rank adds them up.
template <placement Use>
struct scale_rows {
  using concept_tag = layer_tag;
  using weight = parameter<"weight", extents<12>, constant(1.0)>;
  using parameters = parameter_list<weight>;
  using input = features<12>;
  using output = features<12>;
  using forms = plait::forms<whole, by_sequence<use<weight, Use>>>;
  using saved = plait::saved<input_slot>;

  static void forward(auto& ops, auto l) { ops.rows(multiply_row{}, l.x, l.p[weight{}], l.y); }
  static void backward_input(auto& ops, auto l) {
    ops.rows(multiply_row{}, l.dy, l.p[weight{}], l.dx);
  }
  static void backward_parameters(auto& ops, auto l) {
    ops.rows(accumulate_row{}, l.saved[input_slot{}], l.dy, l.dp[weight{}]);
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

  static void forward(auto& ops, auto l) {
    ops.matmul(l.x, l.p[weight{}], l.y);
    ops.add_row(retagged<decltype(l.y)::at>(l.p[bias{}]), l.y);
  }
  static void backward_input(auto& ops, auto l) {
    ops.matmul(l.dy, transposed(l.p[weight{}]), l.dx);
  }
  static void backward_parameters(auto& ops, auto l) {
    ops.accumulate_matmul(transposed(l.saved[input_slot{}]), l.dy, l.dp[weight{}]);
    ops.accumulate_column_sums(l.dy, retagged<decltype(l.dy)::at>(l.dp[bias{}]));
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

  static void forward(auto& ops, auto l) { ops.matmul(l.x, l.p[weight{}], l.y); }
  static void backward_input(auto& ops, auto l) {
    ops.matmul(l.dy, transposed(l.p[weight{}]), l.dx);
  }
  static void backward_parameters(auto& ops, auto l) {
    ops.matmul(transposed(l.saved[input_slot{}]), l.dy, l.dp[weight{}]);
  }
};

/// y += x w without having set y.
struct unwritten_output : overwritten_gradient {
  static void forward(auto& ops, auto l) { ops.accumulate_matmul(l.x, l.p[weight{}], l.y); }
  static void backward_parameters(auto& ops, auto l) {
    ops.accumulate_matmul(transposed(l.saved[input_slot{}]), l.dy, l.dp[weight{}]);
  }
};

/// A row-split layer that adds up its summands itself, and then takes the largest element of each
/// row of its input. `fault` selects the difference from the form's list.
struct moving_row {
  enum class moves { as_listed, once_more, once_less, wider, elsewhere };
  static inline moves fault = moves::as_listed;

  using concept_tag = layer_tag;
  using weight = parameter<"weight", extents<12, 8>, normal(0.1)>;
  using parameters = parameter_list<weight>;
  using input = features<12>;
  using output = features<8>;
  using forms = plait::forms<
      form<"row", shard<dim::features>, invariant, split<weight, 0>,
           inner<partial, invariant, 8, slot_element::compute>, inner<partial_max, replicate, 1>>>;
  using saved = plait::saved<input_slot>;
  using largest = slot<"largest", 2, slot_element::accumulate>;
  using scratch = plait::scratch<largest>;

  static void forward(auto& ops, auto const& l) {
    auto most = retagged<partial_max>(l.scratch[largest{}]);
    most.columns = 1;
    ops.row_max(l.x, most);
    if (fault == moves::wider) most.columns = 2;
    auto const summand = retagged<partial>(l.y);
    ops.matmul(l.x, l.p[weight{}], summand);
    if (fault != moves::elsewhere) static_cast<void>(ops.template move<invariant>(summand));
    if (fault != moves::once_less) static_cast<void>(ops.template move<replicate>(most));
    if (fault == moves::elsewhere) static_cast<void>(ops.template move<invariant>(summand));
    if (fault == moves::once_more) static_cast<void>(ops.template move<replicate>(most));
  }
  static void backward_input(auto& ops, auto const& l) {
    ops.matmul(retagged<replicate>(l.dy), transposed(l.p[weight{}]), l.dx);
  }
  static void backward_parameters(auto& ops, auto const& l) {
    ops.accumulate_matmul(transposed(l.saved[input_slot{}]), retagged<replicate>(l.dy),
                          l.dp[weight{}]);
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
  static void forward(auto& ops, auto l) { add_sum(ops, l.x, l.y, l.scratch[sum{}]); }
  static void backward_input(auto& ops, auto l) { add_sum(ops, l.dy, l.dx, l.scratch[sum{}]); }
};

/// The sum over all samples, with a declaration that only three samples go together.
struct batch_sum_of_three : batch_sum {
  static constexpr std::size_t sequence = 1;
  static constexpr std::size_t mixes_samples = 3;
};

struct divided_by {
  static constexpr bool is_linear = true;
  double count;
  PLAIT_HOST_DEVICE auto operator()(auto a) const { return a / decltype(a)(count); }
};

/// The sum over all samples of the microbatch, on all ranks, as its form lists it. `fault` selects
/// the difference from the form's list.
struct summing_row {
  enum class sums { as_listed, once_more, once_less, shorter, shared_by_one_rank };
  static inline sums fault = sums::as_listed;

  using concept_tag = layer_tag;
  using input = features<12>;
  using output = features<12>;
  using forms = plait::forms<form<"row", invariant, invariant, ext::batch_sum<invariant, 12>,
                                  ext::batch_sum<invariant, 12, ext::layer_body::backward_input>>>;
  using sum = slot<"sum", 0, 12, slot_element::accumulate>;
  using scratch = plait::scratch<sum>;
  static constexpr std::size_t sequence = 1;

  static void add_sum(auto& ops, auto const& l, auto x, auto y, bool is_due) {
    auto const here = l.scratch[sum{}];
    ops.copy(x, y);
    if (!is_due) return;
    ops.clear(here);
    x.rows = l.context.present();
    ops.accumulate_column_sums(x, here);
    auto of_all = here;
    if (fault == sums::shorter) --of_all.columns;
    if (fault != sums::once_less) ops.sum_over_samples(of_all);
    if (fault == sums::once_more) ops.sum_over_samples(of_all);
    if (fault == sums::shared_by_one_rank)
      ops.map(divided_by{double(l.context.present())}, here, here);
    ops.add_row(read_only(here), y);
    y.data += x.count(), y.rows = l.context.missing;
    ops.clear(y);
  }
  static void forward(auto& ops, auto l) { add_sum(ops, l, l.x, l.y, !l.context.reads_buffers); }
  static void backward_input(auto& ops, auto l) { add_sum(ops, l, l.dy, l.dx, true); }
};

/// y = 3 x in two steps, the second of which reads x again: y must not be x.
template <bool Forward, bool Backward>
struct three_times {
  using concept_tag = layer_tag;
  using input = features<12>;
  using output = features<12>;
  static constexpr aliasing may_alias{.forward = Forward, .backward = Backward};

  static void forward(auto& ops, auto l) {
    ops.map(twice_of{}, l.x, l.y);
    ops.add(l.x, l.y, l.y);
  }
  static void backward_input(auto& ops, auto l) {
    ops.map(twice_of{}, l.dy, l.dx);
    ops.add(l.dy, l.dx, l.dx);
  }
};

/// y = x^2 with dx = x dy.
struct wrong_derivative {
  using concept_tag = layer_tag;
  using input = features<12>;
  using output = features<12>;
  using saved = plait::saved<input_slot>;

  static void forward(auto& ops, auto l) { ops.map(square_of{}, l.x, l.y); }
  static void backward_input(auto& ops, auto l) {
    ops.map(product_of{}, l.saved[input_slot{}], l.dy, l.dx);
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

/// y = w x with w = |weight|, with the gradient of a positive weight.
struct positive_weight : scale_rows<replicate> {
  struct multiply {
    PLAIT_HOST_DEVICE void operator()(std::size_t columns, auto const* x, auto const* w,
                                      auto* y) const {
      for (std::size_t c = 0; c < columns; ++c) y[c] = x[c] * (w[c] < 0 ? -w[c] : w[c]);
    }
  };
  using forms = plait::forms<whole>;
  static void forward(auto& ops, auto l) { ops.rows(multiply{}, l.x, l.p[weight{}], l.y); }
  static void backward_input(auto& ops, auto l) { ops.rows(multiply{}, l.dy, l.p[weight{}], l.dx); }
};

/// y = x times a number. With a fault the number depends on facts of this rank and microbatch
/// alone.
struct numbered {
  enum class by { nothing, local_row, batch, microbatch };
  static inline by fault = by::nothing;

  using concept_tag = layer_tag;
  using input = features<12>;
  using output = features<12>;

  struct multiply {
    double all, of_row;
    void operator()(auto const&, auto x, auto y) const {
      for (std::size_t i = 0; i < x.rows * 12; ++i)
        y.data[i] = x.data[i] * (all + of_row * double(i / 12));
    }
  };
  static void scale(auto& ops, layer_context const& context, auto from, auto to) {
    double const all = fault == by::batch        ? 1 / double(context.batch)
                       : fault == by::microbatch ? 1 + context.microbatch
                                                 : 1;
    ops.run(multiply{all, fault == by::local_row ? 0.125 : 0}, from, to);
  }
  static void forward(auto& ops, auto l) { scale(ops, l.context, l.x, l.y); }
  static void backward_input(auto& ops, auto l) { scale(ops, l.context, l.dy, l.dx); }
};

/// y = x minus the mean of a group of two samples. With a fault a place without a sample is one of
/// them, or gets a gradient.
struct centred_pairs {
  enum class places { left_out, counted, given_a_gradient };
  static inline places fault = places::left_out;

  using concept_tag = layer_tag;
  using input = features<12>;
  using output = features<12>;
  static constexpr std::size_t sequence = 1, mixes_samples = 2;

  struct subtract {
    std::size_t present;
    bool clears;
    void operator()(auto const&, auto x, auto y) const {
      for (std::size_t r = 0; r < x.rows; ++r)
        for (std::size_t c = 0; c < 12; ++c) {
          std::size_t const first = r / 2 * 2;
          double sum = 0, count = 0;
          for (std::size_t of = first; of < first + 2 && of < present; ++of)
            sum += x.data[of * 12 + c], ++count;
          y.data[r * 12 + c] = r < present ? x.data[r * 12 + c] - sum / count
                               : clears    ? 0
                                           : x.data[r * 12 + c] + 1;
        }
    }
  };
  static std::size_t present(layer_context const& context) {
    return fault == places::counted ? context.batch : context.present();
  }
  static void forward(auto& ops, auto l) { ops.run(subtract{present(l.context), true}, l.x, l.y); }
  static void backward_input(auto& ops, auto l) {
    ops.run(subtract{present(l.context), fault != places::given_a_gradient}, l.dy, l.dx);
  }
};

/// The square of the column of a row that its label names.
struct square_of_label {
  enum class labels {
    right,
    counted_once,        ///< all targets count as one
    left_unwritten,      ///< no gradient is written where one is ignored
    read_where_ignored,  ///< an ignored label is read as a column before its row
    read_past_rows       ///< accepts a label that is not a column
  };
  static inline labels fault = labels::right;

  using concept_tag = layer_tag;
  using input = inputs<features<5>, tokens>;
  using output = loss_value;
  using terms = slot<"terms", 1, slot_element::accumulate>;
  using saved = plait::saved<input_slot>;
  using scratch = plait::scratch<terms>;

  static std::int64_t count(std::span<std::int32_t const> some) {
    if (fault == labels::counted_once) return 1;
    std::int64_t out = 0;
    for (auto const label : some) {
      if (label == ignored_target) continue;
      if ((label < 0 || label >= 5) && fault != labels::read_past_rows)
        throw input_error({"square_of_label: label ", label, " is none of 5"});
      ++out;
    }
    return out;
  }
  struct square {
    void operator()(std::size_t, auto const* x, auto const* label, auto* term) const {
      bool const is_read = *label != ignored_target || fault == labels::read_where_ignored;
      *term = is_read ? x[*label] * x[*label] : 0;
    }
  };
  struct differentiate {
    static constexpr bool takes_row = true;
    loss_seed seed;
    void operator()(std::size_t row, std::size_t, auto const* x, auto const* label,
                    auto* dx) const {
      if (*label == ignored_target && fault == labels::left_unwritten) return;
      for (int c = 0; c < 5; ++c) dx[c] = c == *label ? 2 * x[c] * seed.at(row) : 0;
    }
  };
  static void forward(auto& ops, auto l) {
    auto const& [x, labels] = l.x;
    ops.rows(square{}, x, labels, l.scratch[terms{}]);
    ops.add_to_loss(l.scratch[terms{}]);
  }
  static void backward_input(auto& ops, auto l) {
    auto const& [x, labels] = l.saved[input_slot{}];
    ops.rows(differentiate{l.dy}, x, labels, l.dx);
  }
};

/// The mean of the squared differences from targets that are real numbers.
struct squares {
  enum class gradient { right, nan_where_ignored, same_without_sample };
  static inline gradient fault = gradient::right;

  using concept_tag = layer_tag;
  using input = inputs<features<3>, reals<3>>;
  using output = loss_value;
  using terms = slot<"terms", 1, slot_element::accumulate>;
  using saved = plait::saved<input_slot>;
  using scratch = plait::scratch<terms>;

  static std::int64_t count(auto targets) { return nn::mse<3>::count(targets); }

  struct differentiate {
    static constexpr bool takes_row = true;
    loss_seed seed;
    void operator()(std::size_t row, std::size_t, auto const* x, auto const* target,
                    auto* dx) const {
      double const scale = fault == gradient::same_without_sample ? *seed.scale : seed.at(row);
      for (int c = 0; c < 3; ++c) {
        bool const counts = !std::isnan(target[c]) || fault == gradient::nan_where_ignored;
        dx[c] = counts ? 2 * (x[c] - target[c]) * scale : 0;
      }
    }
  };
  static void forward(auto& ops, auto l) { nn::mse<3>::forward(ops, l); }
  static void backward_input(auto& ops, auto l) {
    auto const& [x, targets] = l.saved[input_slot{}];
    ops.rows(differentiate{l.dy}, x, targets, l.dx);
  }
};

/// The mean over the samples of s^2, where s is the sum of all inputs of the microbatch. With the
/// fault the number of the local row has an effect.
struct square_of_sum {
  static inline bool fault = false;

  using concept_tag = layer_tag;
  static constexpr std::size_t sequence = 1;
  using input = inputs<features<1>, reals<1>>;
  using output = loss_value;
  using forms = plait::forms<form<"whole", invariant, invariant, ext::batch_sum<invariant, 1>,
                                  ext::batch_sum<invariant, 1, layer_body::backward_input>>>;
  using sum = slot<"sum", 0, 1, slot_element::accumulate>;
  using sum_of_gradients = slot<"sum_of_gradients", 0, 1, slot_element::accumulate>;
  using terms = slot<"terms", 1, slot_element::accumulate>;
  using saved = plait::saved<input_slot, sum>;
  using scratch = plait::scratch<terms, sum_of_gradients>;

  static double of_row(std::size_t row) { return fault ? 1 + double(row) : 1; }
  static std::int64_t count(auto targets) { return static_cast<std::int64_t>(targets.size()); }

  struct add {
    std::size_t present;
    void operator()(auto const&, auto x, auto s) const {
      s.data[0] = 0;
      for (std::size_t r = 0; r < present; ++r) s.data[0] += x.data[r];
    }
  };
  struct write_terms {
    std::size_t present;
    void operator()(auto const&, auto s, auto to) const {
      for (std::size_t r = 0; r < to.rows; ++r)
        to.data[r] = r < present ? s.data[0] * s.data[0] * of_row(r) : 0;
    }
  };
  struct add_gradients {
    std::size_t present;
    loss_seed seed;
    void operator()(auto const&, auto s, auto to) const {
      to.data[0] = 0;
      for (std::size_t r = 0; r < present; ++r)
        to.data[0] += 2 * s.data[0] * seed.at(r) * of_row(r);
    }
  };
  struct spread {
    std::size_t present;
    void operator()(auto const&, auto from, auto dx) const {
      for (std::size_t r = 0; r < dx.rows; ++r) dx.data[r] = r < present ? from.data[0] : 0;
    }
  };
  static void forward(auto& ops, auto l) {
    std::size_t const present = l.context.present();
    ops.run(add{present}, std::get<0>(l.x), l.saved[sum{}]);
    if (!l.context.reads_buffers && !l.context.recomputes) ops.sum_over_samples(l.saved[sum{}]);
    ops.run(write_terms{present}, l.saved[sum{}], l.scratch[terms{}]);
    ops.add_to_loss(l.scratch[terms{}]);
  }
  static void backward_input(auto& ops, auto l) {
    std::size_t const present = l.context.present();
    ops.run(add_gradients{present, l.dy}, l.saved[sum{}], l.scratch[sum_of_gradients{}]);
    if (!l.context.reads_buffers) ops.sum_over_samples(l.scratch[sum_of_gradients{}]);
    ops.run(spread{present}, l.scratch[sum_of_gradients{}], l.dx);
  }
};

}  // namespace broken
