// SPDX-License-Identifier: Apache-2.0
// digits FILE: two linear layers learn the handwritten digits of a table, serially and on two data
// ranks. Prints the accuracy on a fifth that they have not seen; exit code 1 if the two differ.
#include <cmath>
#include <cstdio>

#include "plait/data/table.hpp"
#include "plait/plait.hpp"

namespace {

using model = plait::sequential<plait::nn::linear<64, 64>, plait::nn::relu<64>,  //
                                plait::nn::linear<64, 10>>;
template <class Policy>
struct job : plait::parallel<plait::objective<model, plait::nn::cross_entropy<10>>, Policy> {};

struct found {
  double loss = 0, accuracy = 0;
};

template <class Policy>
found train(plait::table<float> const& digits) {
  auto const scaled = digits | plait::normalize(8, 8);  // pixels are 0 to 16
  auto const [seen, held_out] = plait::split_data(scaled, 0.8, {.seed = 1});
  found out;
  plait::launch<job<Policy>>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job<Policy>>(rank, plait::adamw{.learning_rate = 3e-3});
    auto batches = plait::batches(seen, plait::global_batch<64>{}, rank, {.seed = 1, .epochs = 20});
    for (auto const& batch : batches) trainer.step(batch);
    auto const [loss, accuracy] =
        trainer.evaluate(held_out, plait::global_batch<64>{}, plait::measures::mean_loss{},
                         plait::measures::accuracy{});
    if (rank.is_root()) out = {loss, accuracy};
  });
  return out;
}

}  // namespace

int main(int, char** arguments) {
  plait::table<float> const digits(arguments[1], {.targets = {"64"}, .header = false});
  auto const serial = train<plait::serial>(digits), dp2 = train<plait::data_parallel<2>>(digits);
  std::printf("accuracy %.4f serial, %.4f on two data ranks; loss %.6f, %.6f\n", serial.accuracy,
              dp2.accuracy, serial.loss, dp2.loss);
  bool const same = serial.accuracy == dp2.accuracy && std::abs(serial.loss - dp2.loss) < 1e-3;
  return same && serial.accuracy >= 0.94 ? 0 : 1;
}
