// SPDX-License-Identifier: Apache-2.0
// Measures the options of data_parallel that send fewer bytes: a small GPT on two processes, with a
// link so slow that the reduction of a step's gradients takes `times` as long as the computation of
// a step. The programs take turns: in each turn the program with local_steps<8> makes eight steps,
// of which the last makes the common update, and the other programs make one step.
//   slow_link [turns=N] [times=4]
// Rank 0 prints the medians of the times of a step in milliseconds, and the medians of their ratios
// to data_parallel with buckets. The time of a step of local_steps<8> is an eighth of its turn.
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
constexpr int steps_apart = 8;
struct apart : parallel<model, data_parallel<2, buckets<1_MiB>, local_steps<steps_apart>>> {};
constexpr std::array names{"buckets<1_MiB>", "compressed<bfloat16>", "compressed<float8>",
                           "local_steps<8>"};

void print_medians(int turns, int times) {
  double const step = time_of_computing();
  constexpr auto bytes = whole::plan_type::memory(0, {}).gradients;
  auto const engine = testing::slow_link(plait_benchmark::make_engine(),
                                         {.bytes_per_second = double(bytes) / (times * step)});
  auto const data = text();
  launch<whole, as_bfloat16, as_float8, apart>(processes{.engine = engine}, [&](auto& rank) {
    auto all = batches(data, global_batch<batch>{}, rank, {.epochs = 0});
    sgd const rule{.learning_rate = 0.01};
    auto of_whole = trainer<whole>(rank, rule);
    auto of_bfloat16 = trainer<as_bfloat16>(rank, rule);
    auto of_float8 = trainer<as_float8>(rank, rule);
    auto of_apart = trainer<apart>(rank, rule);
    auto const all_apart = [&] {
      for (int i = 0; i < steps_apart; ++i)
        of_apart.step(all.at(std::uint64_t(of_apart.step_number())));
    };
    std::array<std::vector<double>, names.size()> took, ratios;
    for (int turn = -2; turn < turns; ++turn) {
      auto const& one = all.at(std::uint64_t(turn + 2));
      std::array const now{seconds([&] { of_whole.step(one); }),
                           seconds([&] { of_bfloat16.step(one); }),
                           seconds([&] { of_float8.step(one); }), seconds(all_apart) / steps_apart};
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
