// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <plait/checkpoint/load_weights.hpp>
#include <plait/checkpoint/save_weights.hpp>
#include <plait/data/tensor_table.hpp>
#include <plait/plait.hpp>
#include <plait/plan/explain.hpp>

#include "train_resnet/model.hpp"

// One job of train_resnet, which a unit compiles, and the list in which the main program finds it.
namespace train_resnet {

struct options {
  std::string model = "resnet18", plan = "serial", data, init, save;
  std::int64_t batch = 16, microbatches = 0, steps = 20, seed = 1;
  double learning_rate = 0.01, momentum = 0.9;
};

/// A model under a plan. Both functions throw input_error.
struct entry {
  std::string model, plan;
  std::string (*explain)(options const& wanted);
  void (*train)(options const& wanted);  ///< null for a job that can only be explained
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

namespace sizes {
/// Pictures of 32 x 32 in ten classes.
struct resnet18 {
  static constexpr shape of{};
  using net = train_resnet::resnet18<of>;
};
/// Pictures of ImageNet: 224 x 224, a thousand classes.
struct resnet50 {
  static constexpr shape of{.edge = 224, .classes = 1000};
  using net = train_resnet::resnet50<of>;
};
}  // namespace sizes

template <class Size, class Job>
std::string explain(options const& wanted) {
  using plan = typename Job::plan_type;
  int const microbatches =
      wanted.microbatches > 0 ? static_cast<int>(wanted.microbatches) : plan::stages;
  auto const pieces =
      static_cast<std::size_t>(plan::grid.size(plait::ext::batch_axes) * microbatches);
  if (static_cast<std::size_t>(wanted.batch) % (pieces * Size::of.group) != 0)
    throw plait::input_error("--batch " + std::to_string(wanted.batch) + " is cut into " +
                             std::to_string(pieces) + " microbatches of whole groups of " +
                             std::to_string(Size::of.group) + "; write a multiple of " +
                             std::to_string(pieces * Size::of.group));
  return plait::explain(
      Job::plan(),
      {.rows = static_cast<std::size_t>(wanted.batch) / pieces, .microbatches = microbatches},
      {.device = plait::host_maths::kind()});
}

template <class Size, class Job, class Data>
void train_on(options const& wanted, Data const& data) {
  auto const seed = static_cast<std::uint64_t>(wanted.seed);
  // A last group of one sample has no variance if its maps have only one element.
  auto const last =
      data.size() % Size::of.group == 1 ? plait::last_batch::drop : plait::last_batch::keep;
  plait::launch<Job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(
        rank, plait::sgd{.learning_rate = wanted.learning_rate, .momentum = wanted.momentum},
        {.seed = seed});
    // PyTorch counts batches in each layer of statistics; this program ignores the counts.
    if (!wanted.init.empty())
      plait::load_weights(trainer, plait::safetensors_reader(wanted.init),
                          {.extra = {"*num_batches_tracked"}});
    auto batches =
        plait::batches(data, plait::global_batch<>(static_cast<std::size_t>(wanted.batch)), rank,
                       {.seed = seed,
                        .last = last,
                        .epochs = 0,
                        .microbatches = static_cast<int>(wanted.microbatches)});
    for (std::int64_t step = 0; step < wanted.steps; ++step) {
      auto const report = trainer.step(batches.at(static_cast<std::uint64_t>(step)));
      if (rank.is_root()) std::printf("step %3ld  loss %.6f\n", long(step), report.loss);
    }
    double const loss = trainer.evaluate(batches.at(0));  // uses the running statistics
    if (rank.is_root()) std::printf("evaluated: loss %.6f\n", loss);
    if (!wanted.save.empty()) plait::save_weights(trainer, wanted.save);
  });
}

/// Trains on the tensors x (samples, 3, edge, edge), or (samples, 3 edge edge), and y of a
/// safetensors file, or on generated pictures.
template <class Size, class Job>
void train(options const& wanted) {
  constexpr std::size_t width = 3 * Size::of.edge * Size::of.edge;
  if (!wanted.data.empty()) {
    plait::safetensors_reader const file(wanted.data);
    auto const& shape = file.info("x").shape;
    std::size_t const samples = shape.empty() ? 0 : shape.front();
    if (!file.has_shape("x", std::array{samples, width}))
      file.expect_shape("x", std::array{samples, std::size_t{3}, Size::of.edge, Size::of.edge});
    return train_on<Size, Job>(wanted, plait::tensor_table<float>(wanted.data, "x", "y"));
  }
  train_on<Size, Job>(wanted, plait::in_memory<float>::random_classes(96, width, Size::of.classes,
                                                                      std::uint64_t(wanted.seed)));
}

/// Adds a job to the list.
template <class Size, class Job, bool Trains>
bool enter(char const* model, char const* plan) {
  entry made{model, plan, explain<Size, Job>, nullptr};
  if constexpr (Trains) made.train = train<Size, Job>;
  entries().push_back(made);
  return true;
}

}  // namespace train_resnet
