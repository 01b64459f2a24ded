// SPDX-License-Identifier: Apache-2.0
// Measures the slowdown of a rank's computation while its second thread waits for others: rank 1 of
// two processes comes 200 ms late to a sum, so that rank 0 has a processor of its own.
//   waiting [pairs=N]
// Prints medians in milliseconds of rank 0's computing with a call and without, and the median of
// the pairs' ratios.
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "processes/raw.hpp"
#include "processes/small_gpt.hpp"

#include "plait/backend/process/processes.hpp"
#include "plait/plait.hpp"

namespace {

using namespace plait;
using namespace small_gpt;

constexpr std::chrono::milliseconds late{200};
struct job : parallel<model, data_parallel<2>> {};

/// The computation of rank 0: steps of a model in its process alone, for at least 150 ms.
void print_medians(int pairs) {
  auto const data = text();
  launch<job>(
      processes{.engine = plait_benchmark::make_engine(), .streams = process_streams::concurrent},
      [&](auto& rank) {
        auto& group = rank.group(axis::data);
        std::vector<float> summed(1 << 16, 1.0F);
        launch<alone>(threads{.in_each_process = true}, [&](auto& inner) {
          auto trainer = plait::trainer<alone>(inner, sgd{.learning_rate = 0.01});
          auto all = batches(data, global_batch<batch / 2>{}, inner, {.epochs = 0});
          auto const compute = [&] { return seconds([&] { trainer.step(all.at(0)); }); };
          int steps = 1;
          while (steps * compute() < 0.15) ++steps;
          auto const compute_for_long = [&] {
            return seconds([&] {
              for (int i = 0; i < steps; ++i) trainer.step(all.at(0));
            });
          };
          std::vector<double> beside, without, ratios;
          for (int pair = 0; pair < pairs; ++pair) {
            double took[2]{1, 1};  // by rank 0
            for (bool const calls : {false, true}) {
              rank.world().barrier();
              if (rank.world_rank() == 1) std::this_thread::sleep_for(late);
              if (calls) group.all_reduce(std::span<float>(summed));
              if (rank.world_rank() == 0) took[calls] = compute_for_long();
              rank.device().synchronize();
              rank.world().barrier();
            }
            without.push_back(took[0]);
            beside.push_back(took[1]);
            ratios.push_back(took[1] / took[0]);
          }
          if (!rank.is_root()) return;
          std::printf("computing %.1f ms, beside a thread that waits %.1f ms, ratio %.3f\n",
                      1e3 * median(without), 1e3 * median(beside), median(ratios));
        });
      });
}

}  // namespace

int main(int argc, char** argv) {
  std::string const word = argc > 1 ? argv[1] : "pairs=20";
  int const pairs = word.starts_with("pairs=") ? std::atoi(word.c_str() + 6) : 0;
  if (argc > 2 || pairs <= 0) {
    std::fprintf(stderr, "usage: waiting [pairs=N]\n");
    return 2;
  }
  try {
    print_medians(pairs);
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
