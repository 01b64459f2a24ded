// SPDX-License-Identifier: Apache-2.0
// test: timeout=600 seconds=1
//
// Trains formulas with their own kernels, with documents, random draws and losses, and compares the
// losses with the processor's.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backend/cuda/training_testing.hpp"
#include "plait/backend/cuda/kernels/launch.hpp"
#include "plait/formula.hpp"

namespace {

using namespace training_testing;
using namespace plait::literals;
using plait::operation::adjoints_of;
using plait::operation::row;

template <std::size_t In, std::size_t Out>
using matrix_of = plait::extents<In, Out>;

// ---- A kernel of its own ------------------------------------------------------------------------

/// Calculates one element of c = a b, or of c += a b, for each call.
template <class T, class C>
struct element_of_product {
  T const *a, *b;
  C* c;
  std::size_t columns, inner;
  std::size_t row_of_a, inner_of_a, inner_of_b, column_of_b;  // strides
  bool is_added;

  PLAIT_HOST_DEVICE void operator()(std::size_t at) const {
    plait::accumulate_t<T> sum = 0;
    for (std::size_t k = 0; k < inner; ++k)
      sum += static_cast<plait::accumulate_t<T>>(a[at / columns * row_of_a + k * inner_of_a]) *
             static_cast<plait::accumulate_t<T>>(b[k * inner_of_b + at % columns * column_of_b]);
    if (is_added) sum += static_cast<plait::accumulate_t<T>>(c[at]);
    c[at] = static_cast<C>(sum);
  }
};
template <class Element>
__global__ void make_each(Element element, std::size_t count) {
  plait::cuda_kernels::for_each_pack<1>({0, count}, element);
}
template <class Element>
void launch(plait::ext::cuda_queue const& queue, Element element, std::size_t count) {
  queue.launcher()(make_each<Element>, plait::cuda_kernels::launch_shape{2, 64}, element, count);
}
template <class Element>
void launch(plait::ext::host_queue const&, Element element, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) element(i);
}
template <class View>
using element_of = std::remove_const_t<typename View::element>;

struct product_backward_x {
  static constexpr row is{"product_backward_x", "dy(r j), w(i j) -> dx(r i); linear each"};
  void operator()(auto const& queue, auto dy, auto w, auto dx) const {
    launch(
        queue,
        element_of_product<element_of<decltype(w)>, element_of<decltype(dx)>>{
            dy.data, w.data, dx.data, dx.columns, dy.columns, dy.columns, 1, 1, w.columns, false},
        dx.count());
  }
};
struct product_backward_w {
  static constexpr row is{"product_backward_w", "dy(r j), x(r i) -> +dw(i j); linear each"};
  void operator()(auto const& queue, auto dy, auto x, auto dw) const {
    launch(queue,
           element_of_product<element_of<decltype(x)>, element_of<decltype(dw)>>{
               x.data, dy.data, dw.data, dw.columns, x.rows, 1, x.columns, dy.columns, 1, true},
           dw.count());
  }
};
struct product {
  static constexpr row is{"product", "x(r i), w(i j) -> y(r j); linear each", 2};
  using adjoints = adjoints_of<product_backward_x, product_backward_w>;
  void operator()(auto const& queue, auto x, auto w, auto y) const {
    launch(queue,
           element_of_product<element_of<decltype(x)>, element_of<decltype(y)>>{
               x.data, w.data, y.data, y.columns, x.columns, x.columns, 1, w.columns, 1, false},
           y.count());
  }
};

// ---- Layers -------------------------------------------------------------------------------------

struct is_end {
  PLAIT_HOST_DEVICE auto operator()(auto id) const { return decltype(id)(id == 'a' ? 1 : 0); }
};
struct is_earlier {
  PLAIT_HOST_DEVICE double operator()(plait::formula::index_place const& at) const {
    return at[0] < at.position ? 1 : 0;
  }
};
struct within_document {
  PLAIT_HOST_DEVICE auto operator()(auto score, auto mine, auto other) const {
    return mine == other ? score : decltype(score)(-1e30f);
  }
};
/// Attention to the positions of the same document; an 'a' ends a document.
struct documents {
  static constexpr plait::parameter<"table", matrix_of<256, width>, plait::normal(0.3)> table{};
  static constexpr plait::parameter<"qkv", matrix_of<width, 3 * width>, plait::normal(0.3)> qkv{};
  using input = plait::tokens;
  static constexpr std::size_t sequence = length;
  static constexpr auto formula(auto ids) {
    auto const all = matmul(gather(table, ids), qkv);
    auto const q = plait::formula::heads<2>(part<0, 3>(all));
    auto const k = plait::formula::heads<2>(part<1, 3>(all));
    auto const v = plait::formula::heads<2>(part<2, 3>(all));
    auto const ends = map(is_end{}, number_of(ids));
    auto const mine = sum(across(ends) * plait::formula::at(is_earlier{}));
    auto const scores = einsum<"thd,shd->hts">(q, k) * 0.2_c;
    auto const shares = causal_softmax(map(within_document{}, scores, mine, across(mine)));
    return side_by_side(einsum<"hts,shd->thd">(shares, v));
  }
};
struct mlp_of_products {
  static constexpr plait::parameter<"up", matrix_of<width, 2 * width>, plait::normal(0.3)> up{};
  static constexpr plait::parameter<"down", matrix_of<2 * width, width>, plait::normal(0.3)> down{};
  using input = plait::features<width>;
  static constexpr auto formula(auto x) {
    auto const hidden = dropout(gelu(own(product{}, x, up)), 0.25_c);
    return dropout(own(product{}, hidden, down), 0.3_c);
  }
};
struct noisy {
  static constexpr plait::parameter<"deviation", plait::extents<width>, plait::normal(0.3)>
      deviation{};
  using input = plait::features<width>;
  static constexpr auto formula(auto x) {
    auto const noise = plait::formula::normal<0>() + plait::formula::uniform<1>();
    return with_loss(x + deviation * noise, 1e-2_c * square(log_sum_exp(x)));
  }
};
/// A smoothed cross-entropy, with a term of the greatest logit.
struct smoothed {
  using input = plait::inputs<plait::features<256>, plait::tokens>;
  using output = plait::loss_value;
  static constexpr std::int32_t ignored = 'b';
  static constexpr auto formula(auto x, auto label) {
    auto const entropy = 0.9_c * cross_entropy(x, label);
    return entropy + 0.1_c * (log_sum_exp(x) - mean(x)) + 0.01_c * square(max(x) - pick(x, label));
  }
};
using head = plait::nn::linear<width, 256, plait::nn::linear_options{.weight = plait::normal(0.3)}>;
struct formulas {
  using objective = plait::objective<
      plait::sequential<plait::named<"documents", documents>, plait::named<"noisy", noisy>,
                        plait::named<"mlp", plait::residual<mlp_of_products>>,
                        plait::named<"head", head>>,
      smoothed>;
};

// Other draws would change the losses by some thousandths.
TEST(CudaTrainingOfFormulas, OnTwoTensorRanks) {
  expect_losses_of_host<formulas, tensor<2>>(one_gpu(1, 2), float_tolerance);
}

}  // namespace
