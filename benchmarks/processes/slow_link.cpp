// SPDX-License-Identifier: Apache-2.0
// Measures the options of data_parallel that send fewer bytes: a small GPT on two processes, with a
// link so slow that the reduction of a step's gradients takes `times` as long as the computation of
// a step. Steps of the programs take turns.
//   slow_link [turns=N] [times=4]
// Rank 0 prints the medians of the steps in milliseconds, and the median of their ratios to
// data_parallel with buckets.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "processes/command_line.hpp"
#include "processes/raw.hpp"
#include "processes/small_gpt.hpp"

#include "plait/backend/process/processes.hpp"
#include "plait/plait.hpp"
#include "plait/testing/slow_link.hpp"

namespace {

using namespace plait;
using namespace small_gpt;

struct whole : parallel<model, data_parallel<2, buckets<1_MiB>>> {};
struct as_bfloat16
    : parallel<model, data_parallel<2, buckets<1_MiB>, compressed<plait::bfloat16>>> {};
struct as_float8 : parallel<model, data_parallel<2, buckets<1_MiB>, compressed<float8>>> {};
constexpr std::array names{"buckets<1_MiB>", "compressed<bfloat16>", "compressed<float8>"};

/// The time of a step of a rank's half of the batch, without communication.
double time_of_computing() {
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

void print_medians(int turns, int times) {
  double const step = time_of_computing();
  constexpr auto bytes = whole::plan_type::memory(0, {}).gradients;
  auto const engine = testing::slow_link(plait_benchmark::make_engine(),
                                         {.bytes_per_second = double(bytes) / (times * step)});
  auto const data = text();
  launch<whole, as_bfloat16, as_float8>(processes{.engine = engine}, [&](auto& rank) {
    auto all = batches(data, global_batch<batch>{}, rank, {.epochs = 0});
    sgd const rule{.learning_rate = 0.01};
    auto of_whole = trainer<whole>(rank, rule);
    auto of_bfloat16 = trainer<as_bfloat16>(rank, rule);
    auto of_float8 = trainer<as_float8>(rank, rule);
    std::array<std::vector<double>, names.size()> took, ratios;
    for (int turn = -2; turn < turns; ++turn) {
      auto const& one = all.at(std::uint64_t(turn + 2));
      std::array const now{seconds([&] { of_whole.step(one); }),
                           seconds([&] { of_bfloat16.step(one); }),
                           seconds([&] { of_float8.step(one); })};
      for (std::size_t i = 0; turn >= 0 && i < now.size(); ++i) {
        took[i].push_back(now[i]);
        ratios[i].push_back(now[i] / now[0]);
      }
    }
    if (!rank.is_root()) return;
    std::printf("computing %.1f ms, reduction %d times as long\n", 1e3 * step, times);
    for (std::size_t i = 0; i < names.size(); ++i)
      std::printf("%-22s %8.1f ms, ratio %.3f\n", names[i], 1e3 * median(took[i]),
                  median(ratios[i]));
  });
}

}  // namespace

int main(int argc, char** argv) {
  return plait_benchmark::run_with_numbers(
      argc, argv, {{"turns", 20}, {"times", 4}}, "slow_link [turns=N] [times=N]",
      [](std::string const&, int value) { return value > 0; },
      [](plait_benchmark::numbers const& given) {
        print_medians(given.at("turns"), given.at("times"));
      });
}
