// SPDX-License-Identifier: Apache-2.0
// test: libs=checkpoint seconds=5
//
// Jobs whose steps apply the gradients of the step before continue from a checkpoint as without an
// interruption, and a job with another delay refuses it.
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
#include "train/small_gpt.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
namespace files = std::filesystem;

template <class Policy>
using delayed_job = plait_test::small_job<Policy>;

struct outcome {
  std::vector<double> numbers;  ///< the loss and the norm of each step
  std::vector<std::int64_t> gradient_steps;
  std::map<std::string, std::vector<double>> weights;
  friend bool operator==(outcome const&, outcome const&) = default;
};

struct settings {
  int steps = 8;
  std::int64_t every = 0;
  bool resumes = false, applies_before_saving = false;
  std::vector<std::string> allow{};
};

template <class Policy>
outcome train(files::path const& at, settings const& with) {
  outcome out;
  auto const text = small_gpt::text();
  launch<delayed_job<Policy>>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<delayed_job<Policy>>(rank, adamw{.learning_rate = 0.02},
                                                       {.clip = 0.5, .average = 0.9});
    auto all = batches(text, global_batch<8>{}, rank, {.epochs = 0, .microbatches = 2});
    // The object that saves is made before the first step.
    checkpoints saves(trainer, all, {.folder = at, .every = with.every, .allow = with.allow});
    std::uint64_t const first = with.resumes ? saves.resume() : 0;
    for (auto const& batch : all.from(first)) {
      if (trainer.step_number() >= with.steps) break;
      auto const report = trainer.step(batch);
      if (rank.is_root()) {
        out.numbers.insert(out.numbers.end(), {report.loss, report.gradient_norm});
        out.gradient_steps.push_back(report.gradient_step);
      }
      if (with.applies_before_saving && trainer.step_number() == with.every) trainer.after_steps();
      saves.after_step();
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

void expect_tail(outcome const& got, outcome const& whole, double most) {
  std::size_t const begin = whole.numbers.size() - got.numbers.size();
  for (std::size_t i = 0; i < got.numbers.size(); ++i)
    EXPECT_NEAR(got.numbers[i], whole.numbers[begin + i], most) << i;
  for (auto const& [name, values] : whole.weights)
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(got.weights.at(name)[i], values[i], most) << name;
}

using sharded = data_parallel<2, zero<1>, delayed<1>>;
using alone = data_parallel<1, delayed<1>>;

TEST(DelayedCheckpoint, GoesOnWithTheSameBitsAndUnderAnotherPlan) {
  plait_test::test_folder const at("delayed_goes_on"), not_used("delayed_not_used");
  auto const undisturbed = train<sharded>(not_used.path, {});
  EXPECT_EQ(train<sharded>(at.path, {.steps = 8, .every = 5}), undisturbed);
  auto const manifest = read_manifest(at.path / "step-00000005");
  std::size_t pending = 0;
  for (auto const& tensor : manifest.tensors) pending += tensor.name.ends_with(".pending_gradient");
  EXPECT_EQ(pending, 6u);
  auto const resumed = train<sharded>(at.path, {.resumes = true});
  EXPECT_EQ(resumed.gradient_steps, (std::vector<std::int64_t>{4, 5, 6}));
  expect_tail(resumed, undisturbed, 0);
  expect_tail(train<alone>(at.path, {.resumes = true}), undisturbed, 1e-12);
  expect_tail(
      train<hybrid<data_parallel<2, delayed<1>>, tensor_parallel<2>>>(at.path, {.resumes = true}),
      undisturbed, 1e-12);
}

TEST(DelayedCheckpoint, WithoutPendingGradientsTheNextStepAppliesNone) {
  plait_test::test_folder const at("delayed_applied");
  auto const whole =
      train<sharded>(at.path, {.steps = 8, .every = 5, .applies_before_saving = true});
  EXPECT_EQ(whole.gradient_steps, (std::vector<std::int64_t>{-1, 0, 1, 2, 3, -1, 5, 6}));
  auto const resumed = train<alone>(at.path, {.resumes = true});
  EXPECT_EQ(resumed.gradient_steps, (std::vector<std::int64_t>{-1, 5, 6}));
  expect_tail(resumed, whole, 1e-12);
}

TEST(DelayedCheckpoint, AnotherDelayIsRefused) {
  auto const text_of = [](auto action) -> std::string {
    try {
      action();
    } catch (input_error const& problem) {
      return problem.what();
    }
    return "";
  };
  plait_test::test_folder const with("delayed_with"), without("delayed_without");
  train<sharded>(with.path, {.steps = 3, .every = 3});
  train<data_parallel<2>>(without.path, {.steps = 3, .every = 3});
  auto const first = text_of([&] { train<serial>(with.path, {.resumes = true}); });
  EXPECT_NE(first.find("delayed is 1 step in the checkpoint and not set now"), std::string::npos)
      << first;
  auto const second = text_of([&] { train<alone>(without.path, {.resumes = true}); });
  EXPECT_NE(second.find("delayed is not set in the checkpoint and 1 step now"), std::string::npos)
      << second;
  // If the setting may differ, pending gradients are dropped, or none are pending.
  train<serial>(with.path, {.steps = 4, .resumes = true, .allow = {"delayed"}});
  EXPECT_EQ(train<alone>(without.path, {.steps = 5, .resumes = true, .allow = {"delayed"}})
                .gradient_steps,
            (std::vector<std::int64_t>{-1, 3}));
}

}  // namespace
