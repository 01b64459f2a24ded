// SPDX-License-Identifier: Apache-2.0
// ctest:
// A regression that predicts the last column of a table of numbers from the others, on two data
// ranks.
// example-begin
#include <plait/data/table.hpp>
#include <plait/plait.hpp>

#include <cmath>
#include <cstdio>
#include <fstream>

using model = plait::sequential<plait::nn::linear<3, 32>, plait::nn::gelu<32>,  //
                                plait::nn::linear<32, 1>>;
using job = plait::parallel<plait::objective<model, plait::nn::mse<1>>, plait::data_parallel<2>>;

void write_table(char const* path) {
  std::ofstream file(path);
  for (int i = 0; i < 500; ++i) {
    double const a = std::sin(i), b = std::cos(3 * i), c = std::sin(0.1 * i);
    file << a << ',' << b << ',' << c << ',' << a * b + 0.5 * c << '\n';
  }
}

int main() {
  write_table("points.csv");
  plait::table<float, float> const data("points.csv", {.targets = {"3"}, .header = false});
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::adamw{.learning_rate = 0.01});
    for (auto const& batch : plait::batches(data, plait::global_batch<50>{}, rank, {.epochs = 40}))
      if (auto const report = trainer.step(batch); rank.is_root() && report.step % 100 == 0)
        std::printf("step %3ld  mean squared error %.5f\n", long(report.step), report.loss);
  });
}
// example-end
