// SPDX-License-Identifier: Apache-2.0
// libs: checkpoint
// ctest: checkpoints_run
// Saves the state of a run and resumes it: run the program twice.
// example-begin
#include <plait/checkpoint/checkpoints.hpp>
#include <plait/plait.hpp>

#include <cstdio>

using model = plait::nn::linear<10, 2>;
using loss = plait::nn::cross_entropy<2>;
struct job : plait::parallel<plait::objective<model, loss>, plait::data_parallel<2>> {};

int main(int count, char** words) {
  auto const data = plait::in_memory<float>::random_classes(256, 10, 2);
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::sgd{.learning_rate = 0.5}, {.seed = 1});
    auto batches = plait::batches(data, plait::global_batch<32>{}, rank, {.epochs = 3});
    plait::checkpoints saves(trainer, batches,
                             {.folder = count > 1 ? words[1] : "run", .every = 10});
    for (auto const& batch : batches.from(saves.resume())) {
      auto const report = trainer.step(batch);
      saves.after_step();
      if (rank.is_root()) std::printf("step %2ld  loss %.4f\n", long(report.step), report.loss);
    }
    if (!saves.is_saved()) saves.save();  // the last steps
    saves.finish();
  });
}
// example-end
