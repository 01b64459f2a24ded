// SPDX-License-Identifier: Apache-2.0
// test: libs=checkpoint
//
// Checkpoints of AdamW with bfloat16 states: two bytes for each element, resumed under another
// plan, and exchanged with checkpoints of AdamW only on request.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "plait/checkpoint/checkpoints.hpp"
#include "plait/checkpoint/manifest_text.hpp"
#include "plait/io/safetensors.hpp"
#include "plait/plait.hpp"
#include "plait/train/adamw_bfloat16.hpp"
#include "train/whole_states.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
namespace files = std::filesystem;
using whole_states::states;

using net = objective<
    sequential<named<"in", nn::linear<6, 12>>, nn::gelu<12>,
               named<"frozen", frozen<nn::linear<12, 12>>>, named<"out", nn::linear<12, 4>>>,
    nn::cross_entropy<4>>;
template <class Policy>
struct job : parallel<net, Policy, double> {};
using one = job<serial>;
using several = job<hybrid<pipeline<2>, data_parallel<2, zero<1>>, tensor_parallel<2>>>;

struct folder {
  explicit folder(std::string const& name)
      : path(files::path(::testing::TempDir()) / ("plait_adamw_bfloat16_" + name)) {
    files::remove_all(path);
  }
  ~folder() { files::remove_all(path); }
  files::path path;
};

/// Trains up to a step, from the newest checkpoint, and saves a checkpoint of this step.
template <class Job, class Optimizer = adamw_bfloat16>
states train(files::path const& path, std::int64_t steps, std::vector<std::string> allow = {}) {
  states out;
  std::mutex lock;
  auto const data = in_memory<double>::random_classes(48, 6, 4);
  launch<Job>(threads{}, [&](auto& rank) {
    auto trainer =
        plait::trainer<Job>(rank, Optimizer{.learning_rate = 0.02}, {.seed = 3, .average = 0.9});
    auto all = batches<double>(data, global_batch<24>{}, rank, {.epochs = 0});
    checkpoints saves(trainer, all, {.folder = path, .every = 1, .allow = allow});
    for (auto at = saves.resume(); trainer.step_number() < steps; ++at) {
      trainer.step(all.at(at));
      saves.after_step();
    }
    saves.finish();
    EXPECT_EQ(saves.problem(), "");
    whole_states::save(*trainer.state(), out, lock);
  });
  return out;
}

bool is_state(std::string const& name) { return name.find(".exp_avg") != std::string::npos; }

TEST(AdamwBfloat16Checkpoint, KeepsStatesInTwoBytes) {
  folder const at("bytes");
  auto const trained = train<several>(at.path, 2);
  auto const manifest = read_manifest(at.path / "step-00000002");
  for (auto const& tensor : manifest.tensors)
    EXPECT_EQ(tensor.type, is_state(tensor.name) ? "BF16" : "F64") << tensor.name;
  std::size_t states = 0;
  for (auto const& block : manifest.blocks) {
    safetensors_reader const file(at.path / "step-00000002" / block.file);
    auto const& found = file.info(block.tensor);
    EXPECT_EQ(to_string(found.type), is_state(block.tensor) ? "BF16" : "F64");
    if (is_state(block.tensor)) states += found.bytes();
  }
  EXPECT_EQ(states, 2 * 2 * (6 * 12 + 12 + 12 * 4 + 4u));
  // Restored tensors have the bits of saved tensors, also under another plan.
  EXPECT_EQ(train<several>(at.path, 2).tensors, trained.tensors);
  EXPECT_EQ(train<one>(at.path, 2).tensors, trained.tensors);
}

TEST(AdamwBfloat16Checkpoint, ContinuesUnderAnotherPlan) {
  folder const whole("whole"), part("part");
  auto const expected = train<one>(whole.path, 5);
  train<several>(part.path, 3);
  auto const rest = train<one>(part.path, 5);
  ASSERT_EQ(rest.tensors.size(), expected.tensors.size());
  for (auto const& [name, values] : expected.tensors)
    for (std::size_t i = 0; i < values.size(); ++i)
      if (is_state(name)) EXPECT_EQ(rest.tensors.at(name)[i], values[i]) << name;
      else EXPECT_NEAR(rest.tensors.at(name)[i], values[i], 1e-12) << name;
}

std::string error_of(auto const& run) {
  try {
    run();
  } catch (input_error const& e) {
    return e.what();
  }
  return "";
}

TEST(AdamwBfloat16Checkpoint, IsExchangedWithAdamwOnlyOnRequest) {
  folder const wide("wide"), rounded("rounded");
  auto const of_wide = train<one, adamw>(wide.path, 2);
  auto const of_rounded = train<one>(rounded.path, 2);
  auto const expect_refused = [](std::string const& text, std::string const& values) {
    EXPECT_NE(text.find(values), std::string::npos) << text;
    EXPECT_NE(text.find("resume with the same settings, or list the settings that may differ in "
                        "checkpoint_options::allow"),
              std::string::npos)
        << text;
  };
  expect_refused(
      error_of([&] { train<one>(wide.path, 3); }),
      "optimizer is adamw in the checkpoint and adamw_bfloat16, states of 2 bytes now; resume");
  expect_refused(
      error_of([&] { train<one, adamw>(rounded.path, 3); }),
      "optimizer is adamw_bfloat16, states of 2 bytes in the checkpoint and adamw now; resume");
  EXPECT_EQ((train<one, adamw>(rounded.path, 2, {"optimizer"}).tensors), of_rounded.tensors);
  for (auto const& [name, values] : train<one>(wide.path, 2, {"optimizer"}).tensors)
    for (std::size_t i = 0; i < values.size(); ++i) {
      double const from = of_wide.tensors.at(name)[i];
      EXPECT_EQ(values[i], is_state(name) ? static_cast<double>(plait::bfloat16(from)) : from);
    }
}

}  // namespace
