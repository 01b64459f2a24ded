// SPDX-License-Identifier: Apache-2.0
// digits FILE: two convolutions with batch_norm learn the handwritten digits of a table, serially
// and on two data ranks with two stages each. Prints the accuracy on a fifth that they have not
// seen; exit code 1 if the two differ or one in fifty is wrong.
#include <cmath>
#include <cstdio>

#include "plait/data/table.hpp"
#include "plait/plait.hpp"

namespace {

namespace nn = plait::nn;

using first = nn::conv2d<nn::image<1, 8, 8>, 16, {.padding = 1, .bias = false}>;
using half = nn::max_pool<first::output>;
using second = nn::conv2d<half::output, 32, {.padding = 1, .bias = false}>;
using quarter = nn::max_pool<second::output>;
template <class Image>
using norm = nn::batch_norm<Image, {.group = 8}>;
using model =
    plait::sequential<first, norm<first::output>, nn::relu<first::output::size>, half, second,
                      norm<second::output>, nn::relu<second::output::size>, quarter,
                      nn::flatten<quarter::output>, nn::linear<quarter::output::size, 10>>;
// In double, so that rounding does not decide on a picture.
template <class Policy>
struct job : plait::parallel<plait::objective<model, nn::cross_entropy<10>>, Policy, double> {};

struct found {
  double loss = 0, accuracy = 0;
};

template <class Policy>
found train(plait::table<double> const& digits) {
  auto const scaled = digits | plait::normalize(8, 8);  // pixels are 0 to 16
  auto const [seen, held_out] = plait::split_data(scaled, 0.8, {.seed = 1});
  found out;
  plait::launch<job<Policy>>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job<Policy>>(rank, plait::adamw{.learning_rate = 3e-3});
    auto batches = plait::batches(seen, plait::global_batch<64>{}, rank, {.seed = 1, .epochs = 10});
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
  plait::table<double> const digits(arguments[1], {.targets = {"64"}, .header = false});
  using four = plait::hybrid<plait::data_parallel<2>, plait::pipeline<2>>;
  auto const serial = train<plait::serial>(digits), other = train<four>(digits);
  std::printf("accuracy %.4f serial, %.4f under dp2.pp2; loss %.6f, %.6f\n", serial.accuracy,
              other.accuracy, serial.loss, other.loss);
  bool const same = serial.accuracy == other.accuracy && std::abs(serial.loss - other.loss) < 1e-4;
  return same && serial.accuracy >= 0.98 ? 0 : 1;
}
