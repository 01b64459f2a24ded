// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plait/plait.hpp"

// A GPT small enough for two processes on one machine, and the timing of its steps.
namespace small_gpt {

using namespace plait;

constexpr std::size_t width = 192, sequence = 64, vocabulary = 256, batch = 16;
using block =
    sequential<residual<sequential<named<"ln_1", nn::layer_norm<width>>,
                                   named<"attn", nn::causal_self_attention<width, 4, sequence>>>>,
               residual<sequential<named<"ln_2", nn::layer_norm<width>>,
                                   named<"c_fc", nn::linear<width, 4 * width>>, nn::gelu<4 * width>,
                                   named<"c_proj", nn::linear<4 * width, width>>>>>;
using model =
    objective<sequential<named<"wte", nn::embedding<vocabulary, width>>,
                         named<"wpe", nn::positions<sequence, width>>, named<"h", repeat<6, block>>,
                         named<"ln_f", nn::layer_norm<width>>,
                         named<"lm_head", nn::linear<width, vocabulary>>>,
              nn::cross_entropy<vocabulary>>;
struct alone : parallel<model, serial> {};

using clock_type = std::chrono::steady_clock;
template <class Work>
double seconds(Work work) {
  auto const begin = clock_type::now();
  work();
  return std::chrono::duration<double>(clock_type::now() - begin).count();
}
inline double median(std::vector<double> all) {
  std::ranges::sort(all);
  return all[all.size() / 2];
}

inline byte_text text() {
  std::string bytes;
  for (unsigned i = 0; i < 20'000; ++i) bytes.push_back(static_cast<char>('a' + i * i % 23));
  return byte_text::from_text(bytes, sequence);
}

/// Returns the median time of a step of a rank's half of the batch, without communication.
inline double time_of_computing() {
  double out = 0;
  auto const data = text();
  launch<alone>(threads{.in_each_process = true}, [&](auto& rank) {
    auto trainer = plait::trainer<alone>(rank, sgd{.learning_rate = 0.01});
    auto all = batches(data, global_batch<batch / 2>{}, rank, {.epochs = 0});
    std::vector<double> steps;
    for (std::uint64_t i = 0; i < 10; ++i)
      steps.push_back(seconds([&] { trainer.step(all.at(i)); }));
    out = median({steps.begin() + 2, steps.end()});
  });
  return out;
}

}  // namespace small_gpt
