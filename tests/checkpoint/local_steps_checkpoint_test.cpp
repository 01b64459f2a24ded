// SPDX-License-Identifier: Apache-2.0
// test: libs=checkpoint seconds=5
//
// Jobs with replicas continue from a checkpoint as without an interruption: with the common
// parameters, the outer momentum, and the inner states of each replica.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/small_job.hpp"
#include "plait/checkpoint/checkpoints.hpp"
#include "plait/checkpoint/manifest.hpp"
#include "plait/checkpoint/manifest_text.hpp"
#include "plait/plait.hpp"
#include "plait/train/muon.hpp"
#include "train/small_gpt.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
namespace files = std::filesystem;

template <class Policy>
using replicated_job = plait_test::small_job<Policy>;

struct replicated_outcome {
  std::vector<double> numbers;  ///< the loss and the norm of each step of replica 0
  std::map<std::string, std::vector<double>> weights;
  friend bool operator==(replicated_outcome const&, replicated_outcome const&) = default;
};

struct replicated_run {
  int steps = 12;
  std::int64_t every = 0;
  bool resumes = false;
  double rate = 0.7;
  std::int64_t saves_at = -1;  ///< after so many steps a save is asked for
  std::vector<std::string> allow{};
};

template <class Policy, class Optimizer = adamw>
replicated_outcome train_replicas(files::path const& at, replicated_run const& with,
                                  Optimizer const& optimizer = {}) {
  replicated_outcome out;
  auto const text = small_gpt::text();
  launch<replicated_job<Policy>>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<replicated_job<Policy>>(
        rank, optimizer, {.clip = 0.5, .outer = {.rate = with.rate, .momentum = 0.9}});
    auto all = batches(text, global_batch<24>{}, rank, {.epochs = 0});
    // The object that saves is made before the first step.
    checkpoints saves(trainer, all, {.folder = at, .every = with.every, .allow = with.allow});
    std::uint64_t const first = with.resumes ? saves.resume() : 0;
    for (auto const& batch : all.from(first)) {
      if (trainer.step_number() >= with.steps) break;
      auto const report = trainer.step(batch);
      if (rank.is_root())
        out.numbers.insert(out.numbers.end(), {report.loss, report.gradient_norm});
      saves.after_step();
      if (trainer.step_number() == with.saves_at) saves.save();
    }
    saves.finish();
    EXPECT_EQ(saves.problem(), "");
    trainer.export_parameters(
        [&](std::string const& name, auto const&, std::span<double const> values) {
          out.weights[name].assign(values.begin(), values.end());
        });
  });
  return out;
}

void expect_end(replicated_outcome const& got, replicated_outcome const& whole, double most) {
  ASSERT_LE(got.numbers.size(), whole.numbers.size());
  std::size_t const begin = whole.numbers.size() - got.numbers.size();
  for (std::size_t i = 0; i < got.numbers.size(); ++i)
    EXPECT_NEAR(got.numbers[i], whole.numbers[begin + i], most) << i;
  for (auto const& [name, values] : whole.weights)
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(got.weights.at(name)[i], values[i], most) << name;
}

template <class Action>
std::string text_of_input_error(Action action) {
  try {
    action();
  } catch (input_error const& problem) {
    return problem.what();
  }
  return "";
}

using two_replicas = data_parallel<2, local_steps<4>>;
using three_replicas = data_parallel<3, local_steps<4>>;
using cut_replicas = data_parallel<4, within<2>, zero<1>, local_steps<4>>;

TEST(LocalStepsCheckpoint, GoesOnWithTheSameBits) {
  plait_test::test_folder const at("local_steps_goes_on"), not_used("local_steps_not_used");
  auto const undisturbed = train_replicas<two_replicas>(not_used.path, {});
  EXPECT_EQ(train_replicas<two_replicas>(at.path, {.every = 8}), undisturbed);
  auto const resumed = train_replicas<two_replicas>(at.path, {.resumes = true});
  EXPECT_EQ(resumed.numbers.size(), 8u);
  expect_end(resumed, undisturbed, 0);
  // Replicas that cut their state read the state of replicas that do not.
  expect_end(train_replicas<cut_replicas>(at.path, {.resumes = true}), undisturbed, 1e-10);

  auto const manifest = read_manifest(at.path / "step-00000008");
  std::map<std::string, int> found;
  for (auto const& tensor : manifest.tensors)
    if (tensor.name.starts_with("lm_head.bias")) ++found[tensor.name];
  EXPECT_EQ(found, (std::map<std::string, int>{{"lm_head.bias", 1},
                                               {"lm_head.bias.replica0.exp_avg", 1},
                                               {"lm_head.bias.replica1.exp_avg", 1},
                                               {"lm_head.bias.replica0.exp_avg_sq", 1},
                                               {"lm_head.bias.replica1.exp_avg_sq", 1},
                                               {"lm_head.bias.outer_momentum", 1}}));
}

TEST(LocalStepsCheckpoint, ReplicasThatCutTheirStateGoOn) {
  plait_test::test_folder const at("local_steps_cut"), not_used("local_steps_cut_not_used");
  auto const undisturbed = train_replicas<cut_replicas>(not_used.path, {});
  EXPECT_EQ(train_replicas<cut_replicas>(at.path, {.every = 4}), undisturbed);
  files::remove_all(at.path / "step-00000012");
  expect_end(train_replicas<cut_replicas>(at.path, {.resumes = true}), undisturbed, 0);
  expect_end(train_replicas<hybrid<two_replicas, tensor_parallel<2>>>(at.path, {.resumes = true}),
             undisturbed, 1e-10);
}

TEST(LocalStepsCheckpoint, MatricesOfAWholeMatrixOptimizerGoOn) {
  plait_test::test_folder const at("local_steps_muon"), not_used("local_steps_muon_not_used");
  auto const undisturbed = train_replicas<two_replicas, muon>(not_used.path, {});
  EXPECT_EQ((train_replicas<two_replicas, muon>(at.path, {.every = 8})), undisturbed);
  expect_end(train_replicas<two_replicas, muon>(at.path, {.resumes = true}), undisturbed, 0);
}

TEST(LocalStepsCheckpoint, AnotherNumberOfReplicasIsRefused) {
  plait_test::test_folder const at("local_steps_refused");
  train_replicas<two_replicas>(at.path, {.steps = 8, .every = 8});
  auto const three =
      text_of_input_error([&] { train_replicas<three_replicas>(at.path, {.resumes = true}); });
  EXPECT_NE(three.find("replicas is 2 in the checkpoint and 3 now"), std::string::npos) << three;
  auto const rate = text_of_input_error(
      [&] { train_replicas<two_replicas>(at.path, {.resumes = true, .rate = 1}); });
  EXPECT_NE(rate.find("outer.rate is 0.7 in the checkpoint and 1 now"), std::string::npos) << rate;
  // If the number may differ, all replicas begin with new inner states from the common parameters.
  auto const begins = train_replicas<two_replicas>(at.path, {.steps = 8, .resumes = true});
  auto const goes_on =
      train_replicas<three_replicas>(at.path, {.steps = 8, .resumes = true, .allow = {"replicas"}});
  EXPECT_EQ(goes_on.weights, begins.weights);
  train_replicas<three_replicas>(
      at.path, {.steps = 12, .every = 12, .resumes = true, .allow = {"replicas"}});
  auto const manifest = read_manifest(at.path / "step-00000012");
  ASSERT_FALSE(manifest.ages.empty());
  for (auto const& [name, age] : manifest.ages) EXPECT_EQ(age, 4) << name;
}

// A job that goes back to its last checkpoint forgets the steps that it has done since.
TEST(LocalStepsCheckpoint, ATrainerThatGoesBackForgetsItsLastSteps) {
  auto const trained = [](std::uint64_t undone) {
    plait_test::test_folder const at("local_steps_goes_back");
    std::vector<double> out;
    auto const text = small_gpt::text();
    launch<replicated_job<two_replicas>>(threads{}, [&](auto& rank) {
      auto trainer = plait::trainer<replicated_job<two_replicas>>(rank, adamw{});
      auto all = batches(text, global_batch<24>{}, rank, {.epochs = 0});
      checkpoints saves(trainer, all, {.folder = at.path, .every = 4});
      for (std::uint64_t step = 0; step < 4; ++step) {
        trainer.step(all.at(step));
        saves.after_step();
      }
      for (std::uint64_t step = 4; step < 4 + undone; ++step) trainer.step(all.at(step));
      EXPECT_EQ(saves.resume(), 4u);
      double numbers[2]{trainer.evaluate(all.at(20)), 0};
      for (std::uint64_t step = 8; step < 12; ++step)
        numbers[1] = trainer.step(all.at(step)).common_loss.value_or(0);
      trainer.export_parameters(
          [&](std::string const&, auto const&, std::span<double const> values) {
            out.insert(out.end(), values.begin(), values.end());
          });
      if (rank.is_root()) out.insert(out.end(), numbers, numbers + 2);
    });
    return out;
  };
  EXPECT_EQ(trained(2), trained(0));
}

TEST(LocalStepsCheckpoint, SavingBetweenCommonUpdatesIsAnError) {
  plait_test::test_folder const at("local_steps_between");
  auto const every =
      text_of_input_error([&] { train_replicas<two_replicas>(at.path, {.every = 3}); });
  EXPECT_NE(every.find("checkpoint_options::every is 3, but replicas of local_steps<4> have the "
                       "same parameters only after every 4 steps; set .every to a multiple of 4"),
            std::string::npos)
      << every;
  std::string text;
  try {
    train_replicas<two_replicas>(at.path, {.saves_at = 6});
  } catch (error const& problem) {
    text = problem.what();
  }
  EXPECT_NE(text.find("saving a checkpoint needs one value of each parameter, but after 6 steps"),
            std::string::npos)
      << text;
  for (auto const& entry : files::directory_iterator(at.path))
    EXPECT_FALSE(entry.path().filename().string().starts_with("step-")) << entry.path();
}

}  // namespace
