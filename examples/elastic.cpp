// SPDX-License-Identifier: Apache-2.0
// libs: gloo elastic
// Processes join and leave while this program trains, and the final weights are the same as in an
// undisturbed run: scripts/launch --elastic 2:4 --restarts 3 build/dev/examples/elastic
// example-begin
#include <plait/backend/gloo/gloo.hpp>
#include <plait/elastic/elastic.hpp>
#include <plait/plait.hpp>

#include <cstdio>

using model = plait::nn::linear<10, 2>;
using loss = plait::nn::cross_entropy<2>;
using policy = plait::hybrid<plait::data_parallel<>, plait::reproducible<8>>;
struct job : plait::parallel<plait::objective<model, loss>, policy> {};

int main() try {
  auto const data = plait::in_memory<float>::random_classes(256, 10, 2);
  plait::stop_on_signals const stop;
  plait::launch<job>(plait::elastic{.engine = plait::gloo()}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::sgd{.learning_rate = 0.5}, {.stop = &stop});
    auto batches = plait::batches(data, plait::global_batch<32>{}, rank, {.epochs = 50});
    if (rank.is_root())
      std::printf("generation %d: %d ranks from step %ld on\n", rank.generation()->number(),
                  rank.world_size(), long(trainer.step_number()));
    for (auto const& batch : batches.from(std::uint64_t(trainer.step_number()))) {
      auto const report = trainer.step(batch);
      if (rank.is_root() && report.step % 100 == 99)
        std::printf("step %3ld  loss %.17g\n", long(report.step), report.loss);
    }
  });
} catch (plait::stopped_by_signal const& end) {
  return end.exit_code();
} catch (plait::error const& problem) {
  std::fprintf(stderr, "%s\n", problem.what());
  return 2;
}
// example-end
