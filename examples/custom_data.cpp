// SPDX-License-Identifier: Apache-2.0
// ctest:
// Your own data set: tokens; each target is the sum of the last two tokens modulo 16.
#include <plait/plait.hpp>

#include <cstdio>

// example-begin data
struct sums {
  using concept_tag = plait::dataset_tag;
  using element = std::int32_t;  // tokens; float or double for features, with a width()

  std::size_t size() const { return 256; }           // samples
  std::size_t sequence_length() const { return 8; }  // length of each sample; 1 without a sequence
  void inputs(std::size_t sample, std::span<std::int32_t> out) const {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = token(sample, i);
  }
  void targets(std::size_t sample, std::span<std::int32_t> out) const {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = (token(sample, i) + (i == 0 ? 0 : token(sample, i - 1))) % 16;
  }

 private:  // samples never change, and ranks on several threads may ask for them at once
  static std::int32_t token(std::size_t sample, std::size_t position) {
    return std::int32_t((sample * 7 + position * position * 5 + sample / 16) % 16);
  }
};
// example-end

namespace nn = plait::nn;
struct model
    : plait::sequential<
          nn::embedding<16, 24>, nn::positions<8, 24>,
          plait::residual<nn::causal_self_attention<24, 2, 8>>,
          plait::residual<plait::sequential<nn::linear<24, 48>, nn::gelu<48>, nn::linear<48, 24>>>,
          nn::linear<24, 16>> {};
struct job
    : plait::parallel<plait::objective<model, nn::cross_entropy<16>>, plait::data_parallel<2>> {};

int main() {
  sums const data;
  double first = 0, last = 0;
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::adamw{.learning_rate = 0.01});
    for (auto const& batch :
         plait::batches(data, plait::global_batch<32>{}, rank, {.epochs = 25})) {
      auto const step = trainer.step(batch);
      if (!rank.is_root()) continue;
      if (step.step == 0) first = step.loss;
      last = step.loss;
    }
  });
  std::printf("loss %.3f -> %.3f\n", first, last);
  return last < 0.5 * first ? 0 : 1;
}
