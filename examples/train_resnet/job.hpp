// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <plait/checkpoint/load_weights.hpp>
#include <plait/checkpoint/save_weights.hpp>
#include <plait/data/tensor_table.hpp>
#include <plait/observe/csv_log.hpp>
#include <plait/observe/progress.hpp>
#include <plait/plait.hpp>
#include <plait/plan/explain.hpp>

#include "train_resnet/model.hpp"

// One job of train_resnet: what a unit compiles, and the list in which the main program finds it.
namespace train_resnet {

struct options {
  std::string model = "resnet18", plan = "serial", data, init, save, losses;
  std::int64_t batch = 16, microbatches = 0, steps = 20, seed = 1;
  double learning_rate = 0.01, momentum = 0.9;
  bool explain = false;
};

struct entry {
  std::string model, plan;
  void (*run)(options const& wanted);
};
inline std::vector<entry>& entries() {
  static std::vector<entry> all;
  return all;
}

namespace plans {
using serial = plait::serial;
using dp2 = plait::data_parallel<2>;
using pp2 = plait::pipeline<2>;
using dp2_pp2 = plait::hybrid<plait::data_parallel<2>, plait::pipeline<2>>;
}  // namespace plans

/// Sizes of the command line.
namespace sizes {
/// Pictures of 32 x 32 in ten classes.
struct resnet18 {
  static constexpr shape of{};
  using net = train_resnet::resnet18<of>;
  static constexpr bool explains_alone = false;
};
/// That of ImageNet: 224 x 224, a thousand classes.
struct resnet50 {
  static constexpr shape of{.edge = 224, .classes = 1000};
  using net = train_resnet::resnet50<of>;
  static constexpr bool explains_alone = EXPLAINS_RESNET50_ALONE;
};
}  // namespace sizes

/// Trains on `data` and returns the loss of the last step.
template <class Job, class Data>
void train(options const& wanted, Data const& data) {
  plait::launch<Job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(
        rank, plait::sgd{.learning_rate = wanted.learning_rate, .momentum = wanted.momentum},
        {.seed = static_cast<std::uint64_t>(wanted.seed)});
    // PyTorch counts batches in every layer of statistics; nothing is made of that here.
    if (!wanted.init.empty())
      plait::load_weights(trainer, plait::safetensors_reader(wanted.init),
                          {.extra = {"*num_batches_tracked"}});
    auto batches = plait::batches(
        data, plait::global_batch<>{static_cast<std::size_t>(wanted.batch)}, rank,
        {.seed = static_cast<std::uint64_t>(wanted.seed),
         .last = plait::last_batch::keep,
         .epochs = 0,
         .microbatches = static_cast<int>(wanted.microbatches)});
    for (std::int64_t step = 0; step < wanted.steps; ++step) {
      auto const report = trainer.step(batches.at(static_cast<std::uint64_t>(step)));
      if (rank.is_root()) std::printf("step %3ld  loss %.6f\n", long(step), report.loss);
    }
    double const loss = trainer.evaluate(batches.at(0));
    if (rank.is_root()) std::printf("loss of the first batch in evaluation: %.6f\n", loss);
    if (!wanted.save.empty()) plait::save_weights(trainer, wanted.save);
  });
}

}  // namespace train_resnet
