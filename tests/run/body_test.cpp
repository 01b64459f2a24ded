// SPDX-License-Identifier: Apache-2.0
// Custom layers: gradients by a product, and layers that need more than a product: rotary
// positions, heads that share keys and values, a causal convolution.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "plait/plait.hpp"
#include "plait/testing/check_layer.hpp"
#include "schedule/waves.hpp"

namespace {

using plait::shard;
namespace dim = plait::dim;

// ---- a gradient that is a product

template <std::size_t In, std::size_t Out>
struct product {
  using concept_tag = plait::layer_tag;
  using weight = plait::parameter<"weight", plait::extents<In, Out>, plait::normal(0.3)>;
  using parameters = plait::parameter_list<weight>;
  using input = plait::features<In>;
  using output = plait::features<Out>;
  using forms = plait::forms<plait::whole, plait::column<plait::split<weight, 1>>,
                             plait::row_split<plait::split<weight, 0>>>;
  using saved = plait::saved<plait::input_slot>;

  static void forward(auto& ops, auto l) { ops.matmul(l.x, l.p[weight{}], l.y); }
  static void backward_input(auto& ops, auto l) {
    ops.matmul(l.dy, plait::transposed(l.p[weight{}]), l.dx);
  }
  static void backward_parameters(auto& ops, auto l) {
    ops.accumulate_matmul(plait::transposed(l.saved[plait::input_slot{}]), l.dy, l.dp[weight{}]);
  }
};

template <template <std::size_t, std::size_t> class Dense, class Element>
struct job : plait::parallel<
                 plait::objective<plait::sequential<Dense<6, 8>, plait::nn::relu<8>, Dense<8, 4>>,
                                  plait::nn::cross_entropy<4>>,
                 plait::hybrid<plait::data_parallel<2>, plait::tensor_parallel<2>>, Element> {};

template <class Job>
std::vector<double> train(int microbatches = 0) {
  using element = typename Job::parameter_element;
  auto const data = plait::in_memory<element>::random_classes(32, 6, 4);
  std::vector<double> losses;
  plait::launch<Job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, plait::adamw{.learning_rate = 0.01});
    for (auto const& batch : plait::batches<typename Job::element>(
             data, plait::global_batch<8>{}, rank, {.microbatches = microbatches})) {
      double const loss = trainer.step(batch).loss;
      if (rank.is_root()) losses.push_back(loss);
    }
  });
  return losses;
}

template <std::size_t In, std::size_t Out>
struct by_product : product<In, Out> {
  using overwrites_gradient = typename product<In, Out>::weight;
};
// The gradient of its weight is not made by one product.
template <std::size_t In, std::size_t Out>
struct by_no_product : by_product<In, Out> {
  static void backward_parameters(auto&, auto) {}
};
// Adds half of the gradient twice, so that the second product must add to the first.
template <std::size_t In, std::size_t Out>
struct by_two_products : by_product<In, Out> {
  static void backward_parameters(auto& ops, auto l) {
    product<In, Out>::backward_parameters(ops, l);
    product<In, Out>::backward_parameters(ops, l);
  }
};
template <std::size_t In, std::size_t Out>
struct twice : product<In, Out> {
  static void backward_parameters(auto& ops, auto l) {
    by_two_products<In, Out>::backward_parameters(ops, l);
  }
};

TEST(Body, FirstProductOfAGradientIsWrittenAndFurtherOnesAreAdded) {
  EXPECT_EQ((train<job<product, double>>()), (train<job<by_product, double>>()));
  EXPECT_EQ((train<job<twice, double>>()), (train<job<by_two_products, double>>()));
  auto const report = plait::testing::check_layer<by_product<6, 8>>();
  EXPECT_TRUE(report.passed()) << report.text();
}

TEST(Body, GradientThatIsNotAProductIsAnError) {
  try {
    train<job<by_no_product, double>>();
    FAIL() << "not found";
  } catch (plait::error const& error) {
    EXPECT_NE(std::string(error.what()).find("overwrites_gradient"), std::string::npos)
        << error.what();
  }
}

// ---- both gradients in one body

struct gate {
  PLAIT_HOST_DEVICE auto operator()(auto a, auto b) const { return a / (1 + std::exp(-b)); }
};
struct gate_by_a {
  PLAIT_HOST_DEVICE auto operator()(auto b, auto dy) const { return dy / (1 + std::exp(-b)); }
};
struct gate_by_b {
  PLAIT_HOST_DEVICE auto operator()(auto a, auto b, auto dy) const {
    auto const s = 1 / (1 + std::exp(-b));
    return dy * a * s * (1 - s);
  }
};
// The number of calls that make the numbers which both gradients need.
std::atomic<int> gated_calls{0};

/// y = (x w) / (1 + exp(-x v)). Its gradients with respect to a = x w and b = x v are needed by all
/// other gradients.
template <std::size_t In, std::size_t Out>
struct gated_facts {
  using concept_tag = plait::layer_tag;
  using w = plait::parameter<"w", plait::extents<In, Out>, plait::normal(0.4)>;
  using v = plait::parameter<"v", plait::extents<In, Out>, plait::normal(0.4)>;
  using parameters = plait::parameter_list<w, v>;
  using input = plait::features<In>;
  using output = plait::features<Out>;
  using forms = plait::forms<plait::whole, plait::column<plait::split<w, 1>, plait::split<v, 1>>>;
  using a = plait::slot<"a", Out, plait::follows::features>;
  using b = plait::slot<"b", Out, plait::follows::features>;
  using da = plait::slot<"da", Out, plait::follows::features>;
  using db = plait::slot<"db", Out, plait::follows::features>;
  using saved = plait::saved<plait::input_slot, a, b>;
  using scratch = plait::scratch<da, db>;

  static void forward(auto& ops, auto l) {
    ops.matmul(l.x, l.p[w{}], l.saved[a{}]);
    ops.matmul(l.x, l.p[v{}], l.saved[b{}]);
    ops.map(gate{}, l.saved[a{}], l.saved[b{}], l.y);
  }

 protected:
  static void find_shared(auto& ops, auto const& l) {
    ++gated_calls;
    ops.map(gate_by_a{}, l.saved[b{}], l.dy, l.scratch[da{}]);
    ops.map(gate_by_b{}, l.saved[a{}], l.saved[b{}], l.dy, l.scratch[db{}]);
  }
  static void add_parameters(auto& ops, auto const& l) {
    auto const x = plait::transposed(l.saved[plait::input_slot{}]);
    ops.accumulate_matmul(x, l.scratch[da{}], l.dp[w{}]);
    ops.accumulate_matmul(x, l.scratch[db{}], l.dp[v{}]);
  }
  static void write_input(auto& ops, auto const& l) {
    ops.matmul(l.scratch[da{}], plait::transposed(l.p[w{}]), l.dx);
    ops.accumulate_matmul(l.scratch[db{}], plait::transposed(l.p[v{}]), l.dx);
  }
};
template <std::size_t In, std::size_t Out>
struct gated_in_two : gated_facts<In, Out> {
  using base = gated_facts<In, Out>;
  static void backward_input(auto& ops, auto l) {
    base::find_shared(ops, l), base::write_input(ops, l);
  }
  static void backward_parameters(auto& ops, auto l) {
    base::find_shared(ops, l), base::add_parameters(ops, l);
  }
};
// example-begin gated
template <std::size_t In, std::size_t Out>
struct gated : gated_facts<In, Out> {  // scratch<da, db>: the gradients of x w and x v
  using base = gated_facts<In, Out>;
  static void backward(auto& ops, auto l) {
    base::find_shared(ops, l);
    if constexpr (requires { l.dp; }) base::add_parameters(ops, l);
    if constexpr (requires { l.dx; }) base::write_input(ops, l);
  }
};
// example-end

std::atomic<int> half_calls{0};
template <std::size_t In, std::size_t Out>
struct gated_in_all_ways : gated<In, Out> {
  static void backward_input(auto& ops, auto l) {
    ++half_calls;
    gated_in_two<In, Out>::backward_input(ops, l);
  }
  static void backward_parameters(auto& ops, auto l) {
    ++half_calls;
    gated_in_two<In, Out>::backward_parameters(ops, l);
  }
};

/// The first layer has an input whose gradient no layer reads, and the last layer is frozen.
template <template <std::size_t, std::size_t> class First,
          template <std::size_t, std::size_t> class Second, class Policy>
struct gated_job
    : plait::parallel<
          plait::objective<plait::sequential<First<6, 8>, Second<8, 8>, plait::frozen<First<8, 4>>>,
                           plait::nn::cross_entropy<4>>,
          Policy, double> {};
template <class Policy>
using joint_job = gated_job<gated, gated_in_all_ways, Policy>;

TEST(JointBody, TrainsTheBitsOfTheTwoAndFindsWhatTheyShareOnce) {
  using halves = plait::pipeline<2, plait_test::wave_of_halves>;
  constexpr int steps = 4, microbatches = 2, passes = steps * microbatches;
  auto const expected = train<gated_job<gated_in_two, gated_in_two, plait::serial>>(microbatches);
  EXPECT_EQ(gated_calls.exchange(0),
            4 * passes);  // the first and last layer call one half, the other calls both
  EXPECT_EQ(train<joint_job<plait::serial>>(microbatches), expected);
  EXPECT_EQ(gated_calls.exchange(0), 3 * passes);
  EXPECT_EQ(half_calls.exchange(0), 0);

  // A schedule with halves calls the two bodies of a layer that has them, and otherwise `backward`
  // twice.
  EXPECT_EQ(train<joint_job<halves>>(microbatches), expected);
  EXPECT_EQ(gated_calls.exchange(0), 4 * passes);
  EXPECT_EQ(half_calls.exchange(0), 2 * passes);

  using ranks = plait::hybrid<plait::data_parallel<2, plait::zero<3>>, plait::tensor_parallel<2>,
                              plait::recompute<plait::granularity::all>>;
  auto const shared = train<joint_job<ranks>>(microbatches);
  EXPECT_EQ(gated_calls.exchange(0), 4 * 3 * passes);
  ASSERT_EQ(shared.size(), expected.size());
  for (std::size_t i = 0; i < shared.size(); ++i) EXPECT_NEAR(shared[i], expected[i], 1e-12);
}

TEST(JointBody, KeepsTheLawsOfALayer) {
  auto const report = plait::testing::check_layer<gated<12, 12>>();
  EXPECT_TRUE(report.passed()) << report.text();
}

// ---- rotary positions: pairs of features are turned by an angle that grows with the position

struct rotation {
  double direction;
  std::size_t first_position, batch, head_width;

  template <class Queue, class Input, class Output>
  void operator()(Queue const&, Input x, Output y) const {
    using T = typename Output::element;
    for (std::size_t r = 0; r < x.rows; ++r)
      for (std::size_t c = 0; c < x.columns; c += 2) {
        double const rate = std::pow(100.0, -double(c % head_width) / double(head_width));
        double const angle = direction * double(first_position + r / batch) * rate;
        T const a = x.data[r * x.columns + c], b = x.data[r * x.columns + c + 1];
        T const cosine = T(std::cos(angle)), sine = T(std::sin(angle));
        y.data[r * x.columns + c] = a * cosine - b * sine;
        y.data[r * x.columns + c + 1] = a * sine + b * cosine;
      }
  }
};

template <std::size_t Heads, std::size_t HeadWidth, std::size_t Sequence>
struct rotary {
  using concept_tag = plait::layer_tag;
  using input = plait::features<Heads * HeadWidth>;
  using output = input;
  using forms = plait::forms<plait::whole, plait::by_features, plait::by_sequence<>>;
  static constexpr std::size_t sequence = Sequence;
  static constexpr std::size_t units = Heads;
  static constexpr plait::aliasing may_alias{.forward = true, .backward = true};

  static void forward(auto& ops, auto l) { turn(ops, l, 1, l.x, l.y); }
  static void backward_input(auto& ops, auto l) { turn(ops, l, -1, l.dy, l.dx); }

 private:
  static void turn(auto& ops, auto const& l, double direction, auto from, auto to) {
    ops.run(rotation{direction, ops.first_position(from), l.context.batch, HeadWidth}, from, to);
  }
};

// ---- heads that share keys and values, to be followed by an attention with as many of each

template <std::size_t Groups, std::size_t HeadWidth, bool Back>
struct share {
  static constexpr bool any_placement = true;  // whole heads on both sides, in other parts

  // With `few`, Groups parts of queries, then keys and values, of `heads` heads; with `all`, three
  // parts: queries, keys and values of head after head, with Groups queries for each.
  template <class Queue, class From, class To>
  void operator()(Queue const&, From from, To to) const {
    auto const& few = [&]() -> auto const& {
      if constexpr (Back) return to;
      else return from;
    }();
    std::size_t const heads = few.columns / (Groups + 2) / HeadWidth;
    std::size_t const all_columns = 3 * Groups * heads * HeadWidth;
    auto const few_at = [&](std::size_t part, std::size_t head) {
      return (part * heads + head) * HeadWidth;
    };
    auto const all_at = [&](std::size_t part, std::size_t head, std::size_t group) {
      return ((part * heads + head) * Groups + group) * HeadWidth;
    };
    for (std::size_t r = 0; r < few.rows; ++r)
      for (std::size_t head = 0; head < heads; ++head)
        for (std::size_t group = 0; group < Groups; ++group)
          for (std::size_t part = 0; part < 3; ++part)
            for (std::size_t i = 0; i < HeadWidth; ++i) {
              std::size_t const in_few =
                  r * few.columns + few_at(part == 0 ? group : Groups + part - 1, head) + i;
              std::size_t const in_all = r * all_columns + all_at(part, head, group) + i;
              if constexpr (!Back) to.data[in_all] = from.data[in_few];
              else if (part == 0 || group == 0) to.data[in_few] = from.data[in_all];
              else to.data[in_few] += from.data[in_all];
            }
  }
};

template <std::size_t Heads, std::size_t KeyHeads, std::size_t HeadWidth>
struct shared_heads {
  static constexpr std::size_t groups = Heads / KeyHeads;
  using concept_tag = plait::layer_tag;
  using input = plait::features<(groups + 2) * KeyHeads * HeadWidth>;
  using output = plait::features<3 * Heads * HeadWidth>;
  using forms =
      plait::forms<plait::whole,
                   plait::form<"heads", shard<dim::features, groups + 2>, shard<dim::features, 3>>>;
  static constexpr std::size_t units = KeyHeads;

  static void forward(auto& ops, auto l) { ops.run(share<groups, HeadWidth, false>{}, l.x, l.y); }
  static void backward_input(auto& ops, auto l) {
    ops.run(share<groups, HeadWidth, true>{}, l.dy, l.dx);
  }
};

// ---- a causal convolution along the positions, feature by feature

struct convolve {
  std::size_t batch;
  template <class Queue, class Input, class Weight, class Output>
  void operator()(Queue const&, Input x, Weight w, Output y) const {
    std::size_t const columns = x.columns;
    for (std::size_t r = 0; r < x.rows; ++r)
      for (std::size_t c = 0; c < columns; ++c) {
        y.data[r * columns + c] = 0;
        for (std::size_t k = 0; k < w.rows && k * batch <= r; ++k)
          y.data[r * columns + c] +=
              w.data[k * columns + c] * x.data[(r - k * batch) * columns + c];
      }
  }
};
struct convolve_back {
  std::size_t batch;
  template <class Queue, class Gradient, class Weight, class Output>
  void operator()(Queue const&, Gradient dy, Weight w, Output dx) const {
    std::size_t const columns = dy.columns;
    for (std::size_t r = 0; r < dy.rows; ++r)
      for (std::size_t c = 0; c < columns; ++c) {
        dx.data[r * columns + c] = 0;
        for (std::size_t k = 0; k < w.rows && r + k * batch < dy.rows; ++k)
          dx.data[r * columns + c] +=
              w.data[k * columns + c] * dy.data[(r + k * batch) * columns + c];
      }
  }
};
struct convolve_sums {
  std::size_t batch;
  template <class Queue, class Gradient, class Input, class Sums>
  void operator()(Queue const&, Gradient dy, Input x, Sums dw) const {
    std::size_t const columns = dy.columns;
    for (std::size_t k = 0; k < dw.rows; ++k)
      for (std::size_t r = k * batch; r < dy.rows; ++r)
        for (std::size_t c = 0; c < columns; ++c)
          dw.data[k * columns + c] +=
              dy.data[r * columns + c] * x.data[(r - k * batch) * columns + c];
  }
};

template <std::size_t Width, std::size_t Taps, std::size_t Sequence>
struct convolution {
  using concept_tag = plait::layer_tag;
  using weight = plait::parameter<"weight", plait::extents<Taps, Width>, plait::normal(0.5)>;
  using parameters = plait::parameter_list<weight>;
  using input = plait::features<Width>;
  using output = plait::features<Width>;
  using forms =
      plait::forms<plait::whole, plait::form<"features", shard<dim::features>, shard<dim::features>,
                                             plait::split<weight, 1>>>;
  using saved = plait::saved<plait::input_slot>;
  static constexpr std::size_t sequence = Sequence;

  static void forward(auto& ops, auto l) {
    ops.run(convolve{l.context.batch}, l.x, l.p[weight{}], l.y);
  }
  static void backward_input(auto& ops, auto l) {
    ops.run(convolve_back{l.context.batch}, l.dy, l.p[weight{}], l.dx);
  }
  static void backward_parameters(auto& ops, auto l) {
    ops.run(convolve_sums{l.context.batch}, l.dy, l.saved[plait::input_slot{}], l.dp[weight{}]);
  }
};

TEST(Body, RotaryPositionsKeepTheLawsOfALayer) {
  auto const report = plait::testing::check_layer<rotary<12, 2, 12>>();
  EXPECT_TRUE(report.passed()) << report.text();
}
TEST(Body, HeadsThatShareKeysKeepTheLawsOfALayer) {
  auto const report = plait::testing::check_layer<shared_heads<12, 4, 2>>();
  EXPECT_TRUE(report.passed()) << report.text();
}
TEST(Body, AConvolutionKeepsTheLawsOfALayer) {
  auto const report = plait::testing::check_layer<convolution<12, 3, 5>>();
  EXPECT_TRUE(report.passed()) << report.text();
}

// ---- experts: the row itself decides which matrix it meets

/// y = scale * x w[e], where e is the expert with the greatest score x r[e], and scale is this
/// score. Forward writes e and its score for each row.
template <std::size_t Experts, std::size_t In, std::size_t Out>
struct route {
  template <class Queue, class X, class R, class W, class Y, class Kept>
  void operator()(Queue const&, X x, R r, W w, Y y, Kept kept) const {
    using T = typename Y::element;
    for (std::size_t row = 0; row < x.rows; ++row) {
      T const* const of = x.data + row * In;
      auto* const to = kept.data + 2 * row;
      for (std::size_t e = 0; e < Experts; ++e) {
        T score = 0;
        for (std::size_t i = 0; i < In; ++i) score += of[i] * r.data[i * Experts + e];
        if (e == 0 || score > to[1]) to[0] = T(e), to[1] = score;
      }
      T const* const matrix = w.data + std::size_t(to[0]) * In * Out;
      for (std::size_t c = 0; c < Out; ++c) {
        T sum = 0;
        for (std::size_t i = 0; i < In; ++i) sum += of[i] * matrix[i * Out + c];
        y.data[row * Out + c] = to[1] * sum;
      }
    }
  }
};
template <std::size_t Experts, std::size_t In, std::size_t Out>
struct route_back {  // Back: dx, or the gradients of both parameters
  template <class Queue, class X, class R, class W, class Kept, class Dy, class Dx, class... Dp>
  void operator()(Queue const&, X x, R r, W w, Kept kept, Dy dy, Dx dx, Dp... dp) const {
    using T = typename Dx::element;
    for (std::size_t row = 0; row < x.rows; ++row) {
      auto const e = std::size_t(kept.data[2 * row]);
      T const score = kept.data[2 * row + 1];
      T dscore = 0;
      for (std::size_t i = 0; i < In; ++i) {
        T product = 0;
        for (std::size_t c = 0; c < Out; ++c)
          product += w.data[(e * In + i) * Out + c] * dy.data[row * Out + c];
        dscore += x.data[row * In + i] * product;
        dx.data[row * In + i] = score * product;
      }
      for (std::size_t i = 0; i < In; ++i)
        dx.data[row * In + i] += dscore * r.data[i * Experts + e];
      add(row, e, score, dscore, x, dy, dp...);
    }
  }
  static void add(auto...) {}
  static void add(std::size_t row, std::size_t e, auto score, auto dscore, auto x, auto dy, auto dr,
                  auto dw) {
    for (std::size_t i = 0; i < In; ++i) {
      dr.data[i * Experts + e] += dscore * x.data[row * In + i];
      for (std::size_t c = 0; c < Out; ++c)
        dw.data[(e * In + i) * Out + c] += score * x.data[row * In + i] * dy.data[row * Out + c];
    }
  }
};
template <std::size_t Experts, std::size_t In, std::size_t Out>
struct experts {
  using concept_tag = plait::layer_tag;
  using router = plait::parameter<"router", plait::extents<In, Experts>, plait::normal(0.5)>;
  using weight = plait::parameter<"weight", plait::extents<Experts * In, Out>, plait::normal(0.5)>;
  using parameters = plait::parameter_list<router, weight>;
  using input = plait::features<In>;
  using output = plait::features<Out>;
  using routes = plait::slot<"routes", 2, plait::slot_kept::always>;
  using room = plait::slot<"room", In>;
  using saved = plait::saved<plait::input_slot, routes>;
  using scratch = plait::scratch<room>;

  static void forward(auto& ops, auto l) {
    ops.run(route<Experts, In, Out>{}, l.x, l.p[router{}], l.p[weight{}], l.y, l.saved[routes{}]);
  }
  static void backward(auto& ops, auto l) {
    auto const back = [&](auto dx, auto... dp) {
      ops.run(route_back<Experts, In, Out>{}, l.saved[plait::input_slot{}], l.p[router{}],
              l.p[weight{}], l.saved[routes{}], l.dy, dx, dp...);
    };
    if constexpr (!requires { l.dp; }) back(l.dx);
    else if constexpr (!requires { l.dx; }) back(l.scratch[room{}], l.dp[router{}], l.dp[weight{}]);
    else back(l.dx, l.dp[router{}], l.dp[weight{}]);
  }
};

TEST(Body, ExpertsKeepTheLawsOfALayer) {
  auto const report = plait::testing::check_layer<experts<3, 4, 5>>();
  EXPECT_TRUE(report.passed()) << report.text();
}

// ---- slots: their type, and how forms cut them

/// y = x^3 from a copy of x in a slot of its own.
template <std::size_t Width>
struct cube {
  struct value {
    PLAIT_HOST_DEVICE auto operator()(auto x) const { return x * x * x; }
  };
  struct derivative {
    PLAIT_HOST_DEVICE auto operator()(auto x, auto dy) const { return dy * 3 * x * x; }
  };
  struct same {
    PLAIT_HOST_DEVICE auto operator()(auto x) const { return x; }
  };
  using concept_tag = plait::layer_tag;
  using input = plait::features<Width>;
  using output = plait::features<Width>;
  using forms = plait::forms<plait::whole, plait::by_features>;
  using kept = plait::slot<"kept", Width, plait::follows::features>;
  using saved = plait::saved<kept>;

  static void forward(auto& ops, auto l) {
    ops.map(same{}, l.x, l.saved[kept{}]);
    ops.map(value{}, l.x, l.y);
  }
  static void backward_input(auto& ops, auto l) {
    ops.map(derivative{}, l.saved[kept{}], l.dy, l.dx);
  }
};

template <class Element>
struct cubic_job
    : plait::parallel<plait::objective<plait::sequential<plait::nn::linear<6, 8>, cube<8>,
                                                         plait::nn::linear<8, 4>>,
                                       plait::nn::cross_entropy<4>>,
                      plait::hybrid<plait::data_parallel<2>, plait::tensor_parallel<2>>, Element> {
};

TEST(Slot, HasTheTypeOfActivationsUnlessItSaysSums) {
  auto const losses = train<cubic_job<plait::precision<plait::bfloat16, float>>>();
  auto const exact = train<cubic_job<double>>();
  ASSERT_EQ(losses.size(), exact.size());
  for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], exact[i], 0.02);
}

}  // namespace
