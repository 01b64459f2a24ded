// SPDX-License-Identifier: Apache-2.0
// What a program with a copy of the headers looks like: a layer type of its own, trained under a
// hybrid plan, built by one compiler line.
#include <plait/plait.hpp>

#include <cstdio>

template <std::size_t Width>
struct scale {  // y = x times one learned number for each feature
  using concept_tag = plait::layer_tag;
  using factor = plait::parameter<"factor", plait::extents<Width>, plait::constant(1.0)>;
  using parameters = plait::parameter_list<factor>;
  using input = plait::features<Width>;
  using output = plait::features<Width>;
  using saved = plait::saved<plait::input_slot>;

  struct multiply_row {
    template <class T>
    PLAIT_HOST_DEVICE void operator()(std::size_t columns, T* y, T const* x, T const* f) const {
      for (std::size_t c = 0; c < columns; ++c) y[c] = x[c] * f[c];
    }
  };
  static void forward(auto& ops, auto l) { ops.rows(multiply_row{}, l.y, l.x, l.p[factor{}]); }
  static void backward_input(auto& ops, auto l) {
    ops.rows(multiply_row{}, l.dx, l.dy, l.p[factor{}]);
  }
  static void backward_parameters(auto& ops, auto l) {
    ops.accumulate_columns(plait::functions::multiply{}, l.saved[plait::input_slot{}], l.dy,
                           l.dp[factor{}]);
  }
};

using model = plait::sequential<plait::nn::linear<16, 32>, scale<32>, plait::nn::gelu<32>,
                                plait::nn::linear<32, 4>>;
using objective = plait::objective<model, plait::nn::cross_entropy<4>>;
struct job : plait::parallel<objective, plait::hybrid<plait::pipeline<2>, plait::data_parallel<2>,
                                                      plait::tensor_parallel<2>>> {};

int main() {
  auto const data = plait::in_memory<float>::random_classes(256, 16, 4);
  double first = 0, last = 0;
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::adamw{.learning_rate = 0.01});
    for (auto const& batch : plait::batches(data, plait::global_batch<32>{}, rank, {.epochs = 4})) {
      auto const report = trainer.step(batch);
      if (!rank.is_root()) continue;
      if (report.step == 0) first = report.loss;
      last = report.loss;
    }
  });
  std::printf("loss %.4f -> %.4f\n", first, last);
  return last < 0.5 * first ? 0 : 1;
}
