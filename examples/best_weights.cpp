// SPDX-License-Identifier: Apache-2.0
// libs: checkpoint
// ctest: best_weights_run
// Keeps the weights that are best on held-out samples, and loads them again.
#include <plait/checkpoint/checkpoints.hpp>
#include <plait/checkpoint/load_weights.hpp>
#include <plait/checkpoint/weights_folder.hpp>
#include <plait/plait.hpp>

#include <cstdio>
#include <filesystem>

using model = plait::nn::linear<10, 4>;
struct job : plait::parallel<plait::objective<model, plait::nn::cross_entropy<4>>,
                             plait::data_parallel<2>> {};

int main(int count, char** words) {
  std::filesystem::path const run = count > 1 ? words[1] : "best_run";
  // example-begin split
  auto const data = plait::in_memory<float>::random_classes(200, 10, 4);
  auto const [train, rest] = plait::split_data(data, 0.8, {.seed = 1});
  // example-end
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    // example-begin best
    using plait::measures::accuracy;
    auto trainer = plait::trainer<job>(rank, plait::sgd{.learning_rate = 0.5}, {.seed = 1});
    auto batches = plait::batches(train, plait::global_batch<32>{}, rank, {.epochs = 6});
    plait::checkpoints saves(trainer, batches, {.folder = run, .every = 10, .best = accuracy{}});
    for (auto const& batch : batches.from(saves.resume())) {
      trainer.step(batch);
      saves.after_step();
      if (trainer.step_number() % 5 != 0) continue;
      auto const [share] = trainer.evaluate(rest, plait::global_batch<32>{}, accuracy{});
      saves.after_evaluation(share);
    }
    saves.finish();
    plait::load_weights(trainer, plait::weights_folder(plait::best_weights(run)));
    // example-end
    auto const [share] = trainer.evaluate(rest, plait::global_batch<32>{}, accuracy{});
    if (share != saves.best()->value) throw plait::error("these are not the best weights");
    if (rank.is_root())
      std::printf("accuracy %.3f behind step %lld\n", share, (long long)saves.best()->step);
  });
}
