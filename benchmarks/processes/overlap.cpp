// SPDX-License-Identifier: Apache-2.0
// Measures how much of the reduction of gradients overlaps with the backward: a small GPT on two
// processes with buckets of 1 MiB, compared with one call after all passes, steps of the two in
// turn.
//   overlap [pairs=N] [in_turn=1] [link=0]
// The link between the processes is made so slow that the one call takes as long as the backward;
// link=0 leaves it as it is. Rank 0 prints medians in milliseconds, and the median of the pairs'
// ratios.
#include <algorithm>
#include <chrono>
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

struct behind : parallel<model, data_parallel<2, buckets<at_end>>> {};
struct early : parallel<model, data_parallel<2, buckets<1_MiB>>> {};

/// The time of a backward of a rank's half of the batch.
double time_of_backward() {
  double out = 0;
  auto const data = text();
  launch<alone>(threads{.in_each_process = true}, [&](auto& rank) {
    auto trainer = plait::trainer<alone>(rank, sgd{.learning_rate = 0.01});
    auto all = batches(data, global_batch<batch / 2>{}, rank, {.epochs = 0});
    std::vector<double> backwards;
    for (std::uint64_t i = 0; i < 8; ++i) {
      double const step = seconds([&] { trainer.step(all.at(i)); });
      backwards.push_back(step - seconds([&] { trainer.evaluate(all.at(i)); }));
    }
    out = median({backwards.begin() + 2, backwards.end()});
  });
  return out;
}

void print_medians(int pairs, bool in_turn, bool slow) {
  auto engine = plait_benchmark::make_engine();
  double const backward = time_of_backward();
  constexpr auto bytes = behind::plan_type::memory(0, {}).gradients;
  if (slow) engine = testing::slow_link(engine, {.bytes_per_second = double(bytes) / backward});
  auto const data = text();
  processes const backend{
      .engine = engine,
      .streams = in_turn ? process_streams::in_turn : process_streams::concurrent};
  launch<behind, early>(backend, [&](auto& rank) {
    auto late_trainer = plait::trainer<behind>(rank, sgd{.learning_rate = 0.01});
    auto early_trainer = plait::trainer<early>(rank, sgd{.learning_rate = 0.01});
    auto all = batches(data, global_batch<batch>{}, rank, {.epochs = 0});
    std::vector<double> late_steps, early_steps, ratios;
    for (int pair = -2; pair < pairs; ++pair) {
      auto const& one = all.at(std::uint64_t(pair + 2));
      double const late = seconds([&] { late_trainer.step(one); });
      double const soon = seconds([&] { early_trainer.step(one); });
      if (pair < 0) continue;
      late_steps.push_back(late);
      early_steps.push_back(soon);
      ratios.push_back(soon / late);
    }
    if (!rank.is_root()) return;
    std::printf("backward %.1f ms; at_end %.1f ms, buckets<1_MiB> %.1f ms, ratio %.3f\n",
                1e3 * backward, 1e3 * median(late_steps), 1e3 * median(early_steps),
                median(ratios));
  });
}

}  // namespace

int main(int argc, char** argv) {
  return plait_benchmark::run_with_numbers(
      argc, argv, {{"pairs", 40}, {"in_turn", 0}, {"link", 1}},
      "overlap [pairs=N] [in_turn=1] [link=0]",
      [](std::string const& name, int value) { return name != "pairs" || value > 0; },
      [](plait_benchmark::numbers const& given) {
        print_medians(given.at("pairs"), given.at("in_turn") != 0, given.at("link") != 0);
      });
}
