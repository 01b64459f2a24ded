// SPDX-License-Identifier: Apache-2.0
// test: libs=checkpoint timeout=300 seconds=10
//
// Training goes on from a checkpoint as if nothing had been, under the same plan or another.
#include "plait/checkpoint/checkpoints.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "train/small_gpt.hpp"

namespace {

using namespace plait;
namespace files = std::filesystem;

struct folder {
  explicit folder(std::string const& name)
      : path(files::path(::testing::TempDir()) / ("plait_checkpoints_" + name)) {
    files::remove_all(path);
  }
  ~folder() { files::remove_all(path); }
  files::path path;
};

struct outcome {
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> weights;
  std::string problem;
  std::uint64_t begun_at = 0;
};

struct settings {
  int steps = 6;
  std::size_t batch = 8;
  double rate = 0.02, average = 0.9;
  sample_order order = sample_order::shuffled;
  bool has_other_data = false;
  checkpoint_options saves{};
  bool resumes = true;
  /// Behind that step, before checkpoints are told of it, their folder is taken away.
  std::int64_t folder_goes_at = -1;
};

template <class Job>
outcome train(settings const& with, int data_ranks) {
  outcome out;
  auto const text = with.has_other_data
                        ? byte_text::from_text(std::string(600, 'a'), small_gpt::length)
                        : small_gpt::text();
  launch<Job>(threads{.data_ranks = data_ranks}, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, adamw{.learning_rate = with.rate, .weight_decay = 0.1},
                                       {.seed = 3, .clip = 1.0, .average = with.average});
    auto all = batches(
        text, global_batch<>{with.batch}, rank,
        {.seed = 5, .how = with.order, .last = last_batch::keep, .epochs = 0, .microbatches = 2});
    checkpoints saves(trainer, all, with.saves);
    std::uint64_t const first = with.resumes ? saves.resume() : 0;
    if (rank.is_root()) out.begun_at = first;
    for (auto const& batch : all.from(first)) {
      if (trainer.step_number() >= with.steps) break;
      double const loss = trainer.step(batch).loss;
      if (rank.is_root() && trainer.step_number() == with.folder_goes_at)
        files::remove_all(with.saves.folder);
      saves.after_step();
      if (rank.is_root()) out.losses.push_back(loss);
    }
    saves.finish();
    if (rank.is_root()) out.problem = saves.problem();
    using element = typename Job::parameter_element;
    trainer.export_parameters(
        [&](std::string const& name, auto const&, std::span<element const> values) {
          out.weights[name].assign(values.begin(), values.end());
        });
  });
  return out;
}

using runner = std::function<outcome(settings const&)>;
template <class Policy, class Element = double>
runner run_of(int data_ranks = 0) {
  return [=](settings const& with) {
    return train<small_gpt::job<Policy, Element>>(with, data_ranks);
  };
}

std::vector<runner> plans() {
  using zero = hybrid<pipeline<2>, data_parallel<at_launch, zero<1>>, small_gpt::tp2>;
  return {run_of<serial>(), run_of<zero>(2), run_of<small_gpt::tp2_sharded>()};
}

std::uintmax_t bytes_of_tensors(files::path const& path) {
  std::uintmax_t bytes = 0;
  for (auto const& one : files::recursive_directory_iterator(path))
    if (one.path().extension() == ".safetensors") {
      safetensors_reader const file(one.path());
      for (auto const& name : file.names()) bytes += file.info(name).bytes();
    }
  return bytes;
}

TEST(Checkpoints, GoFromEachPlanToEachOther) {
  auto const all = plans();
  std::vector<outcome> whole;
  for (auto const& run : all) {
    folder const none("none");
    whole.push_back(run({.saves = {.folder = none.path}}));
  }
  for (std::size_t a = 0; a < all.size(); ++a)
    for (std::size_t b = 0; b < all.size(); ++b) {
      SCOPED_TRACE("from plan " + std::to_string(a) + " to plan " + std::to_string(b));
      folder const at("pairs");
      auto const half = all[a]({.steps = 3, .saves = {.folder = at.path, .every = 3}});
      EXPECT_EQ(half.problem, "");
      EXPECT_EQ(half.begun_at, 0u);
      using plan = small_gpt::job<serial>::plan_type;
      EXPECT_EQ(bytes_of_tensors(at.path / "step-00000003"), plan::parameter_count() * 4 * 8);
      auto const rest = all[b]({.saves = {.folder = at.path}});
      EXPECT_EQ(rest.begun_at, 3u);
      ASSERT_EQ(rest.losses.size(), 3u);
      for (std::size_t i = 0; i < 3; ++i)
        EXPECT_NEAR(rest.losses[i], whole[a].losses[3 + i], a == b ? 0.0 : 1e-10);
      if (a == b) {
        EXPECT_EQ(rest.weights, whole[a].weights);
      }
    }
}

TEST(Checkpoints, AreKeptAsManyAsIsAsked) {
  folder const at("kept");
  run_of<data_parallel<2>>()({.steps = 7, .saves = {.folder = at.path, .every = 2, .keep = 2}});
  std::vector<std::int64_t> steps;
  for (auto const& one : list_checkpoints(at.path)) {
    EXPECT_EQ(one.damage, "");
    steps.push_back(one.step);
  }
  EXPECT_EQ(steps, (std::vector<std::int64_t>{6, 4}));
}

void expect_refused(settings const& with, std::string const& words) {
  try {
    run_of<data_parallel<2>>()(with);
    ADD_FAILURE() << "no error: " << words;
  } catch (input_error const& problem) {
    EXPECT_NE(std::string(problem.what()).find(words), std::string::npos) << problem.what();
  }
}

TEST(Checkpoints, OfOtherSettingsAreRefused) {
  folder const at("settings");
  run_of<data_parallel<2>>()({.steps = 2, .saves = {.folder = at.path, .every = 2}});
  expect_refused({.rate = 0.01, .saves = {.folder = at.path}},
                 "learning_rate is 0.02 in the checkpoint and 0.01 now");
  expect_refused({.batch = 4, .saves = {.folder = at.path}},
                 "global_batch is 8 in the checkpoint and 4 now");
  expect_refused({.order = sample_order::sequential, .saves = {.folder = at.path}},
                 "order is shuffled by seed 5 in the checkpoint and sequential now");
  expect_refused({.has_other_data = true, .saves = {.folder = at.path}},
                 "data_set is 74 samples, fingerprint ");
  expect_refused({.average = 0, .saves = {.folder = at.path}},
                 "average is 0.9 in the checkpoint and 0 now");
  auto const other = run_of<data_parallel<2>>()(
      {.batch = 4,
       .rate = 0.01,
       .saves = {.folder = at.path, .allow = {"learning_rate", "global_batch"}}});
  EXPECT_EQ(other.begun_at, 4u);  // as many samples as the two steps had
  EXPECT_EQ(other.losses.size(), 4u);
}

TEST(Checkpoints, ThatAreDamagedAreLeftForTheOneBefore) {
  folder const at("damaged");
  run_of<data_parallel<2>>()({.steps = 4, .saves = {.folder = at.path, .every = 2}});
  auto const file = at.path / "step-00000004" / "weights-00001-0.safetensors";
  {
    std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(-3, std::ios::end);
    out.put('\x55');
  }
  auto const found = run_of<small_gpt::tp2>()({.steps = 3, .saves = {.folder = at.path}});
  EXPECT_EQ(found.begun_at, 2u);
  files::remove(at.path / "step-00000002" / "plait.json");
  EXPECT_EQ(run_of<small_gpt::tp2>()({.steps = 1, .saves = {.folder = at.path}}).begun_at, 0u);
}

TEST(Checkpoints, ThatCannotBeWrittenAreSaidAndMayBeRequired) {
  folder const at("unwritable");
  files::create_directories(at.path);
  std::ofstream(at.path / "file") << "no folder";
  expect_refused({.saves = {.folder = at.path / "file" / "sub"}}, "cannot be");
  expect_refused({.saves = {.folder = at.path / "run", .keep = 0}}, ".keep is 0");
  // Between two checkpoints, and while one is written.
  for (std::int64_t const step : {2, 3}) {
    settings with{
        .steps = 5, .saves = {.folder = at.path / "run", .every = 2}, .folder_goes_at = step};
    auto const said = run_of<data_parallel<2>>()(with);
    EXPECT_EQ(said.losses.size(), 5u);
    EXPECT_NE(said.problem, "") << step;
    with.saves.required = true;
    files::remove_all(with.saves.folder);
    expect_refused(with, "checkpoint");
  }
}

}  // namespace
