// SPDX-License-Identifier: Apache-2.0
// ctest:
// Your own layers: checked, planned, and trained under every policy.
#include <plait/plait.hpp>
#include <plait/testing/check_layer.hpp>

#include <cstdio>

// example-begin dense
template <std::size_t In, std::size_t Out>
struct dense {  // y = x w
  using concept_tag = plait::layer_tag;
  using weight = plait::parameter<"weight", plait::extents<In, Out>, plait::normal(0.1)>;
  using parameters = plait::parameter_list<weight>;
  using input = plait::features<In>;    // (rows, In)
  using output = plait::features<Out>;  // (rows, Out)
  using forms = plait::forms<plait::whole, plait::column<plait::split<weight, 1>>,
                             plait::row_split<plait::split<weight, 0>>>;
  using saved = plait::saved<plait::input_slot>;  // backward needs the input

  static void forward(auto& ops, auto l) { ops.matmul(l.x, l.p[weight{}], l.y); }
  static void backward_input(auto& ops, auto l) {
    ops.matmul(l.dy, plait::transposed(l.p[weight{}]), l.dx);
  }
  static void backward_parameters(auto& ops, auto l) {
    ops.accumulate_matmul(plait::transposed(l.saved[plait::input_slot{}]), l.dy, l.dp[weight{}]);
  }
};
// example-end

// example-begin softsign
template <std::size_t Width>
struct softsign {  // y = x / (1 + |x|), element by element
  using concept_tag = plait::layer_tag;
  using input = plait::features<Width>;
  using output = plait::features<Width>;
  using forms = plait::forms<plait::whole, plait::by_features, plait::by_sequence<>>;
  using saved = plait::saved<plait::input_slot>;

  struct value {  // a named type, so that any device can run it
    PLAIT_HOST_DEVICE auto operator()(auto x) const { return x / (1 + (x < 0 ? -x : x)); }
  };
  struct derivative {
    PLAIT_HOST_DEVICE auto operator()(auto x, auto dy) const {
      auto const d = 1 + (x < 0 ? -x : x);
      return dy / (d * d);
    }
  };
  static void forward(auto& ops, auto l) { ops.map(value{}, l.x, l.y); }
  static void backward_input(auto& ops, auto l) {
    ops.map(derivative{}, l.saved[plait::input_slot{}], l.dy, l.dx);
  }
};
// example-end

using net = plait::sequential<dense<32, 64>, softsign<64>, dense<64, 10>>;
using objective = plait::objective<net, plait::nn::cross_entropy<10>>;

template <class Policy>
struct job : plait::parallel<objective, Policy> {};

template <class Policy>
void train(char const* name) {
  auto const data = plait::in_memory<float>::random_classes(512, 32, 10);
  plait::launch<job<Policy>>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job<Policy>>(rank, plait::adamw{.learning_rate = 0.01});
    double first = 0, last = 0;
    for (auto const& batch : plait::batches(data, plait::global_batch<64>{}, rank, {.epochs = 3})) {
      auto const report = trainer.step(batch);
      if (report.step == 0) first = report.loss;
      last = report.loss;
    }
    if (rank.is_root()) std::printf("%-34s loss %.6f -> %.6f\n", name, first, last);
  });
}

int main() {
  // example-begin check
  for (auto const& report :
       {plait::testing::check_layer<dense<8, 12>>(), plait::testing::check_layer<softsign<12>>()})
    for (auto const& failure : report.failures) return std::puts(failure.c_str()), 1;
  // example-end

  // example-begin hybrid
  using plan_of_three =
      plait::hybrid<plait::pipeline<2>, plait::data_parallel<2>, plait::tensor_parallel<2>>;
  using three = job<plan_of_three>;
  using namespace plait::literals;
  static_assert(three::plan().bytes_per_rank({.rows = 16, .microbatches = 2}) < 1_MiB);
  std::fputs(plait::explain(three::plan(), {.rows = 16, .microbatches = 2}).c_str(), stdout);
  // example-end

  std::puts("");
  train<plait::serial>("serial");
  train<plait::data_parallel<2>>("data_parallel<2>");
  train<plait::tensor_parallel<2>>("tensor_parallel<2>");
  train<plait::pipeline<2>>("pipeline<2>");
  train<plan_of_three>("hybrid<pipeline, data, tensor>");
}
