// SPDX-License-Identifier: Apache-2.0
// A minimal layer in a separate project.
#include <plait/plait.hpp>

#include <cstdio>

// example-begin smallest
template <std::size_t In, std::size_t Out>
struct dense {  // y = x w
  using concept_tag = plait::layer_tag;
  using weight = plait::parameter<"weight", plait::extents<In, Out>, plait::normal(0.1)>;
  using parameters = plait::parameter_list<weight>;
  using input = plait::features<In>;
  using output = plait::features<Out>;
  using saved = plait::saved<plait::input_slot>;

  static void forward(auto& ops, auto l) { ops.matmul(l.x, l.p[weight{}], l.y); }
  static void backward_input(auto& ops, auto l) {
    ops.matmul(l.dy, plait::transposed(l.p[weight{}]), l.dx);
  }
  static void backward_parameters(auto& ops, auto l) {
    ops.accumulate_matmul(plait::transposed(l.saved[plait::input_slot{}]), l.dy, l.dp[weight{}]);
  }
};
// example-end

using model = plait::sequential<dense<16, 32>, plait::nn::relu<32>, dense<32, 4>>;
using objective = plait::objective<model, plait::nn::cross_entropy<4>>;
using job = plait::parallel<objective, plait::hybrid<plait::pipeline<2>, plait::data_parallel<2>>>;

int main() {
  auto const data = plait::in_memory<float>::random_classes(256, 16, 4);
  bool falls = false;
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::adamw{.learning_rate = 0.01});
    double first = 0, last = 0;
    for (auto const& batch : plait::batches(data, plait::global_batch<32>{}, rank, {.epochs = 4})) {
      auto const report = trainer.step(batch);
      if (report.step == 0) first = report.loss;
      last = report.loss;
    }
    if (!rank.is_root()) return;
    std::printf("loss %.4f -> %.4f\n", first, last);
    falls = last < first;
  });
  return falls ? 0 : 1;
}
