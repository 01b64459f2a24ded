// SPDX-License-Identifier: Apache-2.0
// ctest: 10
// The same job on host threads and on a device that runs everything late and in any order that the
// waits allow. The losses are the same, and the device finds a missing wait on any laptop.
//   simulated_device SCHEDULES
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <plait/backend/simulated/race_error.hpp>
#include <plait/backend/simulated/simulated.hpp>
#include <plait/plait.hpp>

namespace {

using net =
    plait::sequential<plait::nn::linear<10, 32>, plait::nn::gelu<32>, plait::nn::linear<32, 2>>;
using plan = plait::hybrid<plait::pipeline<2>, plait::data_parallel<2>, plait::tensor_parallel<2>>;
struct job : plait::parallel<plait::objective<net, plait::nn::cross_entropy<2>>, plan> {};

// example-begin train
template <class Backend>
std::vector<double> train(Backend const& backend) {
  auto const data = plait::in_memory<float>::random_classes(64, 10, 2);
  std::vector<double> losses;
  plait::launch<job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::adamw{.learning_rate = 0.01}, {.clip = 1.0});
    for (auto const& batch : plait::batches(data, plait::global_batch<16>{}, rank)) {
      double const loss = trainer.step(batch).loss;
      if (rank.is_root()) losses.push_back(loss);
    }
  });
  return losses;
}
// example-end

}  // namespace

int main(int count, char** words) {
  int const schedules = count > 1 ? std::atoi(words[1]) : 100;
  // example-begin schedules
  auto const expected = train(plait::threads{});
  int same = 0;
  for (int seed = 0; seed < schedules; ++seed)
    same += train(plait::simulated{.seed = std::uint64_t(seed)}) == expected;
  std::printf("%d of %d orders of events gave the losses of host threads, to the bit\n", same,
              schedules);
  // example-end
  if (same != schedules) return 1;

  // Leaves out each of plait's waits in turn, and counts how often the device reports the missing
  // wait.
  plait::ext::simulated_statistics seen;
  train(plait::simulated{.statistics = &seen});
  std::size_t found = 0;
  for (auto const& site : seen.sites) {
    try {
      train(plait::simulated{.without = site});
    } catch (plait::ext::race_error const& race) {
      if (found++ == 0) std::printf("without one of the waits: %s\n", race.what());
    }
  }
  std::printf("%zu of %zu left-out waits were found\n", found, seen.sites.size());
  return found == seen.sites.size() ? 0 : 1;
}
