// SPDX-License-Identifier: Apache-2.0
// test: libs=checkpoint timeout=300 seconds=10
//
// Training continues from a checkpoint as without an interruption, under the same plan or another.
#include "plait/checkpoint/checkpoints.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "plait/checkpoint/load_weights.hpp"
#include "plait/checkpoint/manifest_text.hpp"
#include "plait/checkpoint/weights_folder.hpp"
#include "train/small_gpt.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
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
  std::vector<std::string> left_out;
  std::vector<std::byte> extra;
  std::uint64_t begun_at = 0;
  std::vector<bool> are_best;  // the weights after each step that was told a value
};

struct settings {
  int steps = 6;
  std::size_t batch = 8;
  double rate = 0.02, average = 0.9;
  sample_order order = sample_order::shuffled;
  bool has_other_data = false;
  checkpoint_options saves{};
  bool resumes = true, saves_at_end = false, sets_extra = false, has_warning = false;
  /// After that step, before checkpoints are told of it, their folder is taken away.
  std::int64_t folder_goes_at = -1;
  /// After this step some parameters are loaded from another source.
  std::int64_t imports_at = -1;
  /// The values that are told after steps 1, 2, ...; each rank may tell its own, or have another
  /// measure.
  std::vector<double> values{};
  bool values_differ = false, measures_differ = false;
};

/// A source of values for the trained parameters of the blocks.
struct other_weights final : state_source {
  static constexpr double value = 0.01;
  [[nodiscard]] bool contains(std::string_view name) const override {
    return name.starts_with("h.");
  }
  void read(std::string const&, parameter_info const&, parameter_rectangle const& where,
            void* out) override {
    std::fill_n(static_cast<double*>(out), where.count(), value);
  }
};

template <class Job, class Optimizer = adamw>
outcome train(settings const& with, int data_ranks) {
  outcome out;
  auto const text = with.has_other_data
                        ? byte_text::from_text(std::string(600, 'a'), small_gpt::length)
                        : small_gpt::text();
  launch<Job>(threads{.data_ranks = data_ranks}, [&](auto& rank) {
    auto trainer =
        plait::trainer<Job>(rank, Optimizer{.learning_rate = with.rate, .weight_decay = 0.1},
                            {.seed = 3, .clip = 1.0, .average = with.average});
    auto all = batches(text, global_batch<>{with.batch}, rank,
                       {.seed = 5,
                        .how = with.order,
                        .last = last_batch::keep,
                        .epochs = 0,
                        .microbatches = Job::plan_type::slices > 0 ? 0 : 2});
    auto options = with.saves;
    if (with.measures_differ && !rank.is_root()) options.best = measures::perplexity{};
    checkpoints saves(trainer, all, options);
    std::uint64_t const first = with.resumes ? saves.resume() : 0;
    if (rank.is_root()) out.begun_at = first;
    if (rank.is_root()) out.extra = saves.extra();
    if (with.sets_extra) saves.set_extra(with.saves.extra);
    for (auto const& batch : all.from(first)) {
      if (trainer.step_number() >= with.steps) break;
      double const loss = trainer.step(batch).loss;
      if (trainer.step_number() == with.imports_at) {
        other_weights from;
        trainer.state()->import_parameters(from);
      }
      if (rank.is_root() && trainer.step_number() == with.folder_goes_at)
        while (files::exists(with.saves.folder)) {  // other ranks may still write there
          std::error_code ignored;
          files::remove_all(with.saves.folder, ignored);
        }
      saves.after_step();
      if (rank.is_root()) out.losses.push_back(loss);
      if (auto const told = std::size_t(trainer.step_number()); told <= with.values.size()) {
        bool const is_best = saves.after_evaluation(with.values[told - 1] +
                                                    (with.values_differ ? rank.world_rank() : 0));
        if (rank.is_root()) out.are_best.push_back(is_best);
      }
    }
    if (with.saves_at_end) saves.save();
    saves.finish();
    if (rank.is_root()) out.problem = saves.problem(), out.left_out = saves.left_out();
    EXPECT_EQ(saves.warning().empty(), !with.has_warning) << saves.warning();
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

// A model with a tied head on ranks that hold blocks of all parameters, also of frozen ones.
using part_frozen =
    objective<sequential<named<"wte", use_form<"vocabulary", small_gpt::table>>,
                         named<"wpe", frozen<nn::positions<small_gpt::length, small_gpt::width>>>,
                         named<"h0", frozen<small_gpt::block>>, named<"h", small_gpt::block>,
                         named<"ln_f", nn::layer_norm<small_gpt::width>>,
                         named<"lm_head", use_form<"column", small_gpt::tied_head>>>,
              nn::cross_entropy<small_gpt::tied_vocabulary,
                                nn::cross_entropy_options{.padded_to = small_gpt::vocabulary}>>;
template <class Policy>
struct part_frozen_job : parallel<part_frozen, Policy, double> {};
template <class Policy>
outcome run_part_frozen(settings const& with) {
  return train<part_frozen_job<Policy>>(with, 0);
}
TEST(Checkpoints, GoFromEachLevelToEachOther) {
  std::vector<outcome (*)(settings const&)> const all{
      run_part_frozen<serial>, run_part_frozen<data_parallel<2, shares<3, 1>>>,
      run_part_frozen<data_parallel<2, zero<2>, buckets<1>>>,
      run_part_frozen<data_parallel<4, within<2>, zero<3>, buckets<1>>>};
  folder const none("none");
  auto const whole = all[0]({.steps = 3, .saves = {.folder = none.path}});
  for (auto const from : all)
    for (auto const to : all) {
      folder const at("levels");
      from({.steps = 2, .saves = {.folder = at.path, .every = 2}});
      auto const rest = to({.steps = 3, .saves = {.folder = at.path}});
      ASSERT_EQ(rest.begun_at, 2u);
      EXPECT_NEAR(rest.losses.at(0), whole.losses[2], 1e-12);
      for (auto const& [name, values] : whole.weights)
        for (std::size_t i = 0; i < values.size(); ++i)
          ASSERT_NEAR(rest.weights.at(name)[i], values[i], 1e-12) << name;
    }
}

/// Returns the numbers of a tensor of a checkpoint.
std::vector<double> tensor_in(files::path const& path, std::string const& name) {
  auto const manifest = read_manifest(path);
  auto const found = std::ranges::find(manifest.tensors, name, &checkpoint_tensor::name);
  auto const& shape = found->shape;
  parameter_info const info{
      .rank = int(shape.size()), .rows = shape.size() == 2 ? shape[0] : 1, .columns = shape.back()};
  std::vector<double> out(info.count());
  detail::state_reader(path, manifest, sizeof(double))
      .read(name, info, {.rows = info.rows, .columns = info.columns}, out.data());
  return out;
}
/// Returns the largest change of a number.
double greatest_change(std::vector<double> const& from, std::vector<double> const& to) {
  double out = 0;
  for (std::size_t i = 0; i < from.size(); ++i) out = std::max(out, std::abs(to[i] - from[i]));
  return out;
}

// A parameter that is taken from elsewhere keeps no old moments and no old average, under every
// plan: its first change by Adam is the learning rate, at any step of the job.
TEST(Checkpoints, HaveTheAgesOfRestartedStates) {
  std::vector<outcome (*)(settings const&)> const all{
      run_part_frozen<serial>, run_part_frozen<data_parallel<2, zero<2>, buckets<1>>>,
      run_part_frozen<data_parallel<4, within<2>, zero<3>, buckets<1>>>};
  folder const none("no_ages");
  auto const whole = all[0]({.steps = 4, .saves = {.folder = none.path}, .imports_at = 2});
  for (auto const from : all) {
    folder const at("ages");
    from({.steps = 3, .saves = {.folder = at.path, .every = 1}, .imports_at = 2});
    EXPECT_TRUE(read_manifest(at.path / "step-00000001").ages.empty());
    auto const manifest = read_manifest(at.path / "step-00000003");
    std::map<std::string, std::int64_t> expected;
    for (auto const& [name, values] : whole.weights)
      if (name.starts_with("h.")) expected[name] = 1;
    EXPECT_EQ((std::map<std::string, std::int64_t>(manifest.ages.begin(), manifest.ages.end())),
              expected);
    std::string const bias = "h.mlp.c_proj.bias";
    auto const before = tensor_in(at.path / "step-00000002", bias);
    auto const after = tensor_in(at.path / "step-00000003", bias);
    EXPECT_EQ(before, std::vector<double>(before.size(), other_weights::value));
    EXPECT_NEAR(greatest_change(before, after), 0.02, 0.0004);
    auto const averages = tensor_in(at.path / "step-00000003", bias + ".average");
    for (std::size_t i = 0; i < after.size(); ++i)
      EXPECT_NEAR(averages[i], 0.9 * before[i] + 0.1 * after[i], 1e-15);
    for (auto const to : all) {
      auto const rest = to({.steps = 4, .saves = {.folder = at.path}});
      ASSERT_EQ(rest.begun_at, 3u);
      // The first change after a restart is a gradient over its own size, so it has the relative
      // error of the smallest gradients, which differs between processors.
      for (auto const& [name, values] : whole.weights)
        EXPECT_LE(greatest_change(rest.weights.at(name), values),
                  from == all[0] && to == all[0] ? 0 : 1e-11)
            << name;
    }
  }
}

// The first stage trains nothing, so it has neither optimizer states nor averages.
using warm = sequential<named<"f", nn::linear<4, 6>>, nn::relu<6>, named<"l", nn::linear<6, 5>>>;
using cold = frozen<warm, "f.*">;
template <class Model>
struct staged_job : parallel<objective<Model, nn::cross_entropy<5>>,
                             pipeline<2, one_forward_one_backward, cut_at<1>>, double> {};

/// Trains from the newest checkpoint, and saves a checkpoint. Returns the step at which it began.
template <class Model>
std::uint64_t train_staged(files::path const& path, std::uint64_t steps,
                           std::vector<std::string> allow = {}) {
  std::uint64_t begun = 0;
  auto const data = in_memory<double>::random_classes(48, 4, 5);
  launch<staged_job<Model>>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<staged_job<Model>>(
        rank, adamw{.learning_rate = 0.01, .weight_decay = 0}, {.seed = 3, .average = 0.9});
    auto all = batches<double>(data, global_batch<24>{}, rank, {.epochs = 0, .microbatches = 2});
    checkpoints saves(trainer, all, {.folder = path, .every = 1, .allow = allow});
    std::uint64_t const first = saves.resume();
    for (std::uint64_t i = first; i < steps; ++i) {
      trainer.step(all.at(i));
      saves.after_step();
    }
    saves.finish();
    EXPECT_EQ(saves.problem(), "");
    if (rank.is_root()) begun = first;
  });
  return begun;
}

TEST(Checkpoints, AreWrittenWhereTheFirstStageTrainsNothing) {
  folder const at("cold");
  EXPECT_EQ(train_staged<cold>(at.path, 2), 0u);
  EXPECT_EQ(train_staged<cold>(at.path, 3), 2u);
  EXPECT_THROW(train_staged<warm>(at.path, 4), input_error);
  // Parameters that are trained from now on begin with new states; the others keep their states.
  EXPECT_EQ(train_staged<warm>(at.path, 4, {"model"}), 3u);
  auto const before = at.path / "step-00000003", after = at.path / "step-00000004";
  for (std::string const name : {"f.weight", "f.bias"})
    EXPECT_NEAR(greatest_change(tensor_in(before, name), tensor_in(after, name)), 0.01, 1e-5);
  using ages = std::vector<std::pair<std::string, std::int64_t>>;
  EXPECT_EQ(read_manifest(after).ages, (ages{{"f.weight", 1}, {"f.bias", 1}}));
  auto const old = tensor_in(before, "f.weight"), now = tensor_in(after, "f.weight");
  auto const averages = tensor_in(after, "f.weight.average");
  for (std::size_t i = 0; i < now.size(); ++i)
    EXPECT_NEAR(averages[i], 0.9 * old[i] + 0.1 * now[i], 1e-15);
  EXPECT_EQ(train_staged<warm>(at.path, 5), 4u);
  EXPECT_EQ(read_manifest(at.path / "step-00000005").ages, (ages{{"f.weight", 2}, {"f.bias", 2}}));
  EXPECT_EQ(train_staged<cold>(at.path, 6, {"model"}), 5u);
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

// An epoch has five steps, of which the last has 10 samples. One checkpoint is saved before that
// step, one at the end of the epoch.
TEST(Checkpoints, GoFromEachPlanToEachOther) {
  auto const all = plans();
  std::vector<outcome> whole;
  for (auto const& run : all) {
    folder const none("none");
    whole.push_back(run({.steps = 7, .batch = 16, .saves = {.folder = none.path}}));
  }
  for (std::size_t a = 0; a < all.size(); ++a)
    for (std::size_t b = 0; b < all.size(); ++b) {
      folder const at("pairs");
      auto const part =
          all[a]({.steps = 5, .batch = 16, .saves = {.folder = at.path, .every = 1, .keep = 2}});
      EXPECT_EQ(part.problem, "");
      EXPECT_EQ(part.begun_at, 0u);
      using plan = small_gpt::job<serial>::plan_type;
      EXPECT_EQ(bytes_of_tensors(at.path / "step-00000005"), plan::parameter_count() * 4 * 8);
      for (std::uint64_t const step : {5u, 4u}) {
        SCOPED_TRACE("from plan " + std::to_string(a) + " to plan " + std::to_string(b) +
                     " at step " + std::to_string(step));
        auto const rest = all[b]({.steps = 7, .batch = 16, .saves = {.folder = at.path}});
        EXPECT_EQ(rest.begun_at, step);
        ASSERT_EQ(rest.losses.size(), 7 - step);
        for (std::size_t i = 0; i < rest.losses.size(); ++i)
          EXPECT_NEAR(rest.losses[i], whole[a].losses[step + i], a == b ? 0.0 : 1e-10);
        if (a == b) {
          EXPECT_EQ(rest.weights, whole[a].weights);
        }
        files::remove_all(at.path / "step-00000005");
      }
    }
}

/// Counts the bytes of tensors that are read from another source.
class counting_source final : public state_source {
 public:
  explicit counting_source(state_source& from) : from_(from) {}
  void read(std::string const& name, parameter_info const& info, parameter_rectangle const& where,
            void* out) override {
    bytes += where.count() * sizeof(double);
    from_.read(name, info, where, out);
  }
  std::size_t bytes = 0;

 private:
  state_source& from_;
};

/// Loads the newest checkpoint of a folder, and compares the bytes of tensors that each rank reads
/// with the bytes that it keeps.
template <class Policy>
void expect_little_is_read(files::path const& path, int data_ranks = 0) {
  using job = small_gpt::job<Policy>;
  using plan = typename job::plan_type;
  launch<job>(threads{.data_ranks = data_ranks}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, adamw{}, {.seed = 3, .average = 0.9});
    auto const state = trainer.state();
    auto const found = path / "step-00000002";
    auto const manifest = read_manifest(found);
    detail::state_reader reader(found, manifest, sizeof(double));
    counting_source counted(reader);
    for (std::size_t kind = 0; kind < state->kinds().size(); ++kind) state->restore(kind, counted);
    std::uint64_t kept = 0;
    for (auto const& block : plan::blocks(rank.stage(), rank.tensor_rank(), rank.grid()))
      for (auto const& each : block.rectangles) kept += each.count();
    // Under zero<1> a rank has a share of the optimizer's state and of averages, and saves it. If
    // all tensor ranks have a value, only the first saves it.
    std::uint64_t owned = kept;
    if (plan::cuts_arenas) {
      owned = rank.tensor_rank() == 0 ? 0 : state->count();
      if (rank.tensor_rank() == 0)
        for (auto const& each : state->rectangles()) owned += each.where.count();
    }
    auto const needed = (kept + 3 * owned) * sizeof(double);
    EXPECT_LE(counted.bytes, needed + needed / 20) << "rank " << rank.world_rank();
    EXPECT_GE(counted.bytes, rank.tensor_rank() == 0 ? needed : kept * sizeof(double));
  });
}

TEST(Checkpoints, AreReadAsFarAsARankNeeds) {
  using zero = hybrid<pipeline<2>, data_parallel<at_launch, zero<1>>, small_gpt::tp2>;
  folder const at("read");
  run_of<zero>(2)({.steps = 2, .saves = {.folder = at.path, .every = 2}});
  expect_little_is_read<small_gpt::tp2_sharded>(at.path);
  files::remove_all(at.path);
  run_of<small_gpt::tp2_sharded>()({.steps = 2, .saves = {.folder = at.path, .every = 2}});
  expect_little_is_read<zero>(at.path, 2);
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

// Under one plan a step always has the same manifest, byte for byte.
TEST(Checkpoints, ThatAreDamagedAreReplaced) {
  folder const at("replaced");
  auto const run = run_of<data_parallel<2>>();
  run({.steps = 4, .saves = {.folder = at.path, .every = 2}});
  {
    auto const file = at.path / "step-00000004" / "weights-00000-0.safetensors";
    std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(-3, std::ios::end);
    out.put('\x55');
  }
  auto const again = run({.steps = 4, .saves = {.folder = at.path, .every = 2, .keep = 1}});
  EXPECT_EQ(again.begun_at, 2u);
  EXPECT_EQ(run({.steps = 5, .saves = {.folder = at.path}}).begun_at, 4u);
}

void expect_refused(settings const& with, std::string const& words,
                    runner const& run = run_of<data_parallel<2>>()) {
  try {
    run(with);
    ADD_FAILURE() << "no error: " << words;
  } catch (input_error const& problem) {
    EXPECT_NE(std::string(problem.what()).find(words), std::string::npos) << problem.what();
  }
}

/// Changes a checkpoint so that it comes from another kind of device, or from a version of plait
/// that wrote no kind.
void set_kind(files::path const& checkpoint, std::string const& kind) {
  auto manifest = ext::read_manifest(checkpoint);
  std::erase_if(manifest.settings, [](auto const& one) { return one.first == "kind"; });
  if (!kind.empty()) manifest.settings.emplace_back("kind", kind);
  std::ofstream(checkpoint / "plait.json") << ext::to_text(manifest);
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
  set_kind(at.path / "step-00000002", "a device that decides on other last bits");
  auto const other = run_of<data_parallel<2>>()(
      {.batch = 4,
       .rate = 0.01,
       .saves = {.folder = at.path, .allow = {"learning_rate", "global_batch"}}});
  EXPECT_EQ(other.begun_at, 4u);  // the batch that follows the samples of the two steps
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
  ASSERT_EQ(found.left_out.size(), 1u);
  EXPECT_NE(found.left_out[0].find("is damaged: tensor"), std::string::npos) << found.left_out[0];
  EXPECT_EQ(found.problem, "");
  // If none is left, the job does not start over silently.
  files::remove(at.path / "step-00000002" / "plait.json");
  expect_refused({.steps = 1, .saves = {.folder = at.path}}, "but none can be used");
  files::remove_all(at.path / "step-00000004");
  expect_refused({.steps = 1, .saves = {.folder = at.path}}, "but none can be used");
}

TEST(Checkpoints, OfAnotherRunAreNotMixedWithNewOnes) {
  folder const at("another_run");
  run_of<data_parallel<2>>()({.steps = 2, .saves = {.folder = at.path, .every = 2}});
  expect_refused({.steps = 2, .saves = {.folder = at.path}, .resumes = false},
                 "has checkpoints of another run, up to step 2; continue that run");
  expect_refused(
      {.saves = {.folder = at.path, .allow = {"learning_rat"}}},
      "allow contains 'learning_rat', which is not a setting; the settings are model, precision, ");
}

TEST(Checkpoints, OfAnotherRunAreNotReplacedByASingleSave) {
  folder const at("single_save");
  run_of<data_parallel<2>>()({.steps = 2, .saves = {.folder = at.path, .every = 2}});
  expect_refused({.steps = 0, .saves = {.folder = at.path}, .resumes = false, .saves_at_end = true},
                 "has checkpoints of another run, up to step 2");
}

// The power failed when the old one was moved aside and its replacement had no name yet.
TEST(Checkpoints, ThatWereMovedAsideAreContinued) {
  folder const at("aside");
  auto const run = run_of<data_parallel<2>>();
  run({.steps = 4, .saves = {.folder = at.path, .every = 2}});
  files::rename(at.path / "step-00000004", at.path / "step-00000004.replaced-0123456789abcdef");
  EXPECT_EQ(run({.steps = 5, .saves = {.folder = at.path}}).begun_at, 4u);
  EXPECT_EQ(run({.steps = 6, .saves = {.folder = at.path, .every = 3}}).begun_at, 4u);
  EXPECT_TRUE(files::exists(at.path / "step-00000004"));  // the next save has restored its name
}

TEST(Checkpoints, StayUsableIfOneCannotBeRemoved) {
  folder const at("unremovable");
  auto const run = run_of<data_parallel<2>>();
  run({.steps = 2, .saves = {.folder = at.path, .every = 2}});
  files::create_directories(at.path / "step-00000002" / "mine" / "too");
  auto const next =
      run({.steps = 4, .saves = {.folder = at.path, .every = 2, .keep = 1}, .has_warning = true});
  EXPECT_EQ(next.problem, "");
  EXPECT_EQ(run({.steps = 5, .saves = {.folder = at.path}}).begun_at, 4u);
}

TEST(Checkpoints, KeepWhatTheProgramGivesThem) {
  folder const at("extra");
  auto const run = run_of<data_parallel<2>>();
  std::vector<std::byte> const first{std::byte{1}, std::byte{2}}, second{std::byte{3}};
  run({.steps = 2, .saves = {.folder = at.path, .every = 2, .extra = first}});
  // A setting stays until another one is given.
  EXPECT_EQ(run({.steps = 4, .saves = {.folder = at.path, .every = 2}}).extra, first);
  EXPECT_EQ(run({.steps = 6,
                 .saves = {.folder = at.path, .every = 2, .extra = second},
                 .sets_extra = true})
                .extra,
            first);
  EXPECT_EQ(run({.steps = 6, .saves = {.folder = at.path}}).extra, second);
  expect_refused({.saves = {.folder = at.path, .extra = std::vector<std::byte>((1u << 24) + 1)}},
                 "the program's extra data has 16777217 bytes");
}

TEST(Checkpoints, ContinueWithAllowedSettings) {
  folder const at("allowed");
  auto const run = run_of<data_parallel<2>>();
  run({.steps = 2, .average = 0, .saves = {.folder = at.path, .every = 2}});
  auto const again = [&](double average, std::vector<std::string> allow) {
    return run({.steps = 3, .average = average, .saves = {.folder = at.path, .allow = allow}});
  };
  EXPECT_EQ(again(0.9, {"average"}).begun_at, 2u);  // averages start as the weights
  EXPECT_EQ(again(0, {}).begun_at, 2u);
  // Another optimizer begins with its initial state, also after a switch back.
  using job = small_gpt::job<serial>;
  auto const by_sgd = [&](std::vector<std::string> allow) {
    return train<job, sgd>({.steps = 4,
                            .average = 0,
                            .saves = {.folder = at.path, .every = 4, .allow = std::move(allow)}},
                           0);
  };
  try {
    by_sgd({});
    ADD_FAILURE() << "no error";
  } catch (input_error const& problem) {  // names the optimizers, and not their settings
    EXPECT_NE(std::string(problem.what())
                  .find("': optimizer is adamw in the checkpoint and sgd now; resume"),
              std::string::npos)
        << problem.what();
  }
  EXPECT_EQ(by_sgd({"optimizer"}).begun_at, 2u);
  auto const old =
      run({.steps = 4, .average = 0, .saves = {.folder = at.path, .allow = {"optimizer"}}});
  auto const next = run(
      {.steps = 5, .average = 0, .saves = {.folder = at.path, .every = 5, .allow = {"optimizer"}}});
  EXPECT_EQ(next.begun_at, 4u);
  // This is Adam's first step, at the job's fifth.
  EXPECT_NEAR(greatest_change(old.weights.at("lm_head.bias"), next.weights.at("lm_head.bias")),
              0.02, 0.0004);
  auto const manifest = read_manifest(at.path / "step-00000005");
  EXPECT_EQ(manifest.ages.size(), old.weights.size());
  for (auto const& [name, age] : manifest.ages) EXPECT_EQ(age, 1) << name;
}

std::vector<std::string> folders_in(files::path const& path) {
  std::vector<std::string> out;
  for (auto const& one : files::directory_iterator(path))
    if (one.is_directory()) out.push_back(one.path().filename().string());
  std::ranges::sort(out);
  return out;
}
using names = std::vector<std::string>;

TEST(Checkpoints, KeepTheBestWeightsBesides) {
  folder const at("best"), none("not_best");
  auto const run = run_of<data_parallel<2>>();
  auto const saves = [&](best_measure const& best) {
    return checkpoint_options{.folder = at.path, .every = 1, .keep = 1, .best = best};
  };
  best_measure const score("score", better::greater);
  auto const first = run({.steps = 4, .saves = saves(score), .values = {1, 3, 2, 3}});
  EXPECT_EQ(first.problem, "");
  EXPECT_EQ(first.are_best, (std::vector{true, true, false, false}));
  EXPECT_EQ(folders_in(at.path), (names{"best-00000002", "step-00000004"}));
  EXPECT_EQ(find_best(at.path)->value, 3);

  // They are the weights after the second step.
  using job = small_gpt::job<data_parallel<2>>;
  auto const two = run({.steps = 2, .saves = {.folder = none.path}});
  std::map<std::string, std::vector<double>> loaded;
  launch<job>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, adamw{});
    load_weights(trainer, weights_folder(best_weights(at.path)));
    trainer.export_parameters(
        [&](std::string const& name, auto const&, std::span<double const> values) {
          loaded[name].assign(values.begin(), values.end());
        });
  });
  EXPECT_EQ(loaded, two.weights);

  // A resumed run takes the newest, and knows the best so far.
  auto const second = run({.steps = 6, .saves = saves(score), .values = {0, 0, 0, 0, 2.5, 3.5}});
  EXPECT_EQ(second.begun_at, 4u);
  EXPECT_EQ(second.are_best, (std::vector{false, true}));
  EXPECT_EQ(folders_in(at.path), (names{"best-00000006", "step-00000006"}));
  expect_refused(
      {.saves = saves(measures::accuracy{})},
      "has the best weights according to 'greater score', but checkpoint_options::best is "
      "'greater accuracy' now; use the same measure, or move that folder away");
}

TEST(Checkpoints, OfTheBestWeightsSurviveTheOthers) {
  folder const at("best_aside"), other("best_other");
  auto const run = run_of<data_parallel<2>>();
  auto const with = [](folder const& in) {
    return checkpoint_options{.folder = in.path, .best = measures::mean_loss{}};
  };
  EXPECT_THROW((void)best_weights(at.path), input_error);
  // A run does not continue from these checkpoints, but they belong to this run and not to a new
  // run.
  run({.steps = 2, .saves = with(at), .values = {7, 6}});
  EXPECT_EQ(run({.steps = 2, .saves = with(at), .values = {7, 6}}).are_best,
            (std::vector{false, false}));
  expect_refused({.saves = with(at), .resumes = false},
                 "has checkpoints of another run, up to step 2");
  // The power failed when they were about to be replaced by others of their step.
  files::rename(at.path / "best-00000002", at.path / "best-00000002.replaced-0123456789abcdef");
  EXPECT_EQ(find_best(at.path)->value, 6);
  // The job was killed before it removed the earlier checkpoints.
  run({.steps = 1, .saves = with(other), .values = {7}});
  files::rename(other.path / "best-00000001", at.path / "best-00000001");
  EXPECT_EQ(find_best(at.path)->step, 2);
  EXPECT_EQ(run({.steps = 3, .saves = with(at), .values = {7, 6, 5}}).are_best,
            (std::vector{false, false, true}));
  EXPECT_EQ(folders_in(at.path), names{"best-00000003"});
}

TEST(Checkpoints, ValuesOfTheBestAreCompared) {
  folder const at("best_values");
  auto const options = [&](best_measure const& best) {
    return checkpoint_options{.folder = at.path, .best = best};
  };
  expect_refused({.saves = options({}), .values = {1}},
                 "after_evaluation was called, but no measure is set");
  expect_refused({.saves = options(measures::mean_loss{}), .values = {0.5}, .values_differ = true},
                 "value of after_evaluation, mean_loss: 0.5 on rank 0, 1.5 on rank 1; pass");
  expect_refused(
      {.saves = options(measures::mean_loss{}), .values = {std::nan("")}},
      "after_evaluation got nan as the value of mean_loss, which is neither better nor worse");
  expect_refused({.saves = options(measures::mean_loss{}), .measures_differ = true},
                 "differ in .best: 'lower mean_loss' on rank 0, 'lower perplexity' on rank 1");
  EXPECT_EQ(best_measure(measures::top<5>{}).text(), "greater top_5");
  EXPECT_THROW(best_measure("", better::lower), input_error);
  EXPECT_THROW(best_measure(std::string(101, 'x'), better::lower), input_error);
}

// Slices of unlike ranks give the bits of the undisturbed run, over the end of an epoch.
TEST(Checkpoints, OfSlicesContinueOnAnyNumberOfRanks) {
  using policy = hybrid<data_parallel<at_launch>, reproducible<4>>;
  auto const run = [](int ranks, settings const& with) {
    return train<small_gpt::job<policy, float>>(with, ranks);
  };
  folder const none("no_slices"), at("slices");
  auto const whole = run(1, {.steps = 12, .saves = {.folder = none.path}});
  run(3, {.steps = 8, .saves = {.folder = at.path, .every = 8}});
  auto const rest = run(2, {.steps = 12, .saves = {.folder = at.path}});
  EXPECT_EQ(rest.begun_at, 8u);
  EXPECT_EQ(rest.weights, whole.weights);
  ASSERT_EQ(rest.losses.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(rest.losses[i], whole.losses[8 + i]);
  expect_refused({.saves = {.folder = at.path}},
                 "reproducible is 4 slices in the checkpoint and not set now");

  // The bits depend on the kind of device.
  auto const last = at.path / "step-00000008";
  auto const kept = ext::read_manifest(last).settings;
  EXPECT_NE(
      std::ranges::find(kept, std::pair<std::string, std::string>("kind", host_maths::kind())),
      kept.end());
  set_kind(last, "another device");
  expect_refused({.steps = 8, .saves = {.folder = at.path}},
                 "kind is another device in the checkpoint and ",
                 [&](settings const& with) { return run(2, with); });
  EXPECT_EQ(run(2, {.steps = 8, .saves = {.folder = at.path, .allow = {"kind"}}}).begun_at, 8u);
  set_kind(last, "");
  EXPECT_EQ(run(2, {.steps = 8, .saves = {.folder = at.path}}).begun_at, 8u);
}

/// Changes bytes of a file and restores them.
class changed_byte {
 public:
  changed_byte(files::path const& path, std::size_t at, char mask) : path_(path), at_(at) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    old_ = static_cast<char>(file.seekg(std::streamoff(at_)).get());
    file.seekp(std::streamoff(at_)).put(static_cast<char>(old_ ^ mask));
  }
  ~changed_byte() {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(std::streamoff(at_)).put(old_);
  }
  changed_byte(changed_byte const&) = delete;
  changed_byte& operator=(changed_byte const&) = delete;

 private:
  files::path path_;
  std::size_t at_;
  char old_ = 0;
};

std::size_t header_bytes(files::path const& path) {
  std::uint64_t length = 0;
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(&length), 8);
  return 8 + static_cast<std::size_t>(length);
}
std::vector<files::path> tensor_files(files::path const& folder) {
  std::vector<files::path> out;
  for (auto const& one : files::recursive_directory_iterator(folder))
    if (one.path().extension() == ".safetensors") out.push_back(one.path());
  std::sort(out.begin(), out.end());
  return out;
}
bool is_damaged(files::path const& folder, checkpoint_manifest const& manifest) {
  try {
    detail::state_reader(folder, manifest, sizeof(double)).verify(0, 1);
    return false;
  } catch (input_error const&) {
    return true;
  }
}

TEST(Checkpoints, OfWhichAnyBitOfDataChangesAreDamaged) {
  folder const at("bits");
  run_of<data_parallel<2>>()({.steps = 2, .saves = {.folder = at.path, .every = 2}});
  auto const found = at.path / "step-00000002";
  auto const manifest = read_manifest(found);
  ASSERT_FALSE(is_damaged(found, manifest));
  // The beginnings of the data of all files, in order.
  std::vector<std::pair<files::path, std::size_t>> begins;
  std::size_t all = 0;
  for (auto const& path : tensor_files(found)) {
    begins.emplace_back(path, all);
    all += files::file_size(path) - header_bytes(path);
  }
  constexpr std::size_t changes = 1000;
  for (std::size_t i = 0; i < changes; ++i) {
    std::size_t const byte = i * (all - 1) / (changes - 1);  // includes the first and the last byte
    auto of = begins.end();
    do --of;
    while (of->second > byte);
    changed_byte const change(of->first, header_bytes(of->first) + byte - of->second,
                              static_cast<char>(1 << i % 8));
    ASSERT_TRUE(is_damaged(found, manifest)) << of->first << " byte " << byte;
  }
  EXPECT_FALSE(is_damaged(found, manifest));
}

// Header fields other than names, types, shapes and places are not used: a change there must not
// matter.
TEST(Checkpoints, OfWhichAnyBitOfAHeaderChangesAreDamagedOrTheSame) {
  folder const at("headers");
  files::create_directories(at.path / detail::optimizer_folder);
  parameter_info const matrix{.rank = 2, .rows = 4, .columns = 3};
  parameter_info const vector{.rank = 1, .rows = 1, .columns = 5};
  detail::rank_copies copies;
  copies.element_bytes = {sizeof(double), sizeof(double)};
  copies.kinds = {"", ".exp_avg"};
  copies.rectangles = {
      {"h.w", matrix, {.row = 1, .rows = 2, .columns = 3, .place = 0, .stride = 3}},
      {"h.w", matrix, {.row = 0, .rows = 1, .columns = 3, .place = 6, .stride = 3}},
      {"h.w", matrix, {.row = 3, .rows = 1, .columns = 3, .place = 9, .stride = 3}},
      {"b", vector, {.rows = 1, .columns = 5, .place = 12, .stride = 5}}};
  std::vector<double> values(17);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1.5 + double(i);
  auto const bytes = std::as_bytes(std::span(values));
  copies.bytes.assign(2, {bytes.begin(), bytes.end()});
  detail::state_writer(copies).write(at.path);
  checkpoint_manifest manifest;
  manifest.blocks = detail::blocks_in(at.path);
  for (std::string const kind : {"", ".exp_avg"}) {
    manifest.tensors.push_back({"h.w" + kind, {4, 3}, "F64"});
    manifest.tensors.push_back({"b" + kind, {5}, "F64"});
  }
  auto const read = [&] {
    std::vector<double> out(34);
    detail::state_reader reader(at.path, manifest, sizeof(double));
    std::size_t next = 0;
    for (std::string const kind : {"", ".exp_avg"}) {
      reader.read("h.w" + kind, matrix, {.rows = 4, .columns = 3}, out.data() + next);
      reader.read("b" + kind, vector, {.rows = 1, .columns = 5}, out.data() + next + 12);
      next += 17;
    }
    return out;
  };
  auto const expected = read();
  ASSERT_FALSE(is_damaged(at.path, manifest));
  std::size_t found = 0, all = 0;
  for (auto const& path : tensor_files(at.path))
    for (std::size_t i = 0, end = header_bytes(path); i < end; ++i)
      for (std::size_t const bit : {i % 8, (i + 3) % 8}) {
        changed_byte const change(path, i, static_cast<char>(1 << bit));
        ++all;
        if (is_damaged(at.path, manifest)) ++found;
        else ASSERT_EQ(read(), expected) << path << " byte " << i << " bit " << bit;
      }
  EXPECT_FALSE(is_damaged(at.path, manifest));
  EXPECT_GT(all, 3000u);
  EXPECT_GT(found, all / 2);
}

// The header of one file has another type of the same size. Its numbers are then invalid, and no
// part of the checkpoint is loaded.
TEST(Checkpoints, WithAHeaderOfAnotherTypeAreLeftForTheOneBefore) {
  folder const at("types");
  run_of<data_parallel<2>>()({.steps = 4, .saves = {.folder = at.path, .every = 2}});
  auto const path = at.path / "step-00000004" / "weights-00001-0.safetensors";
  std::ifstream file(path, std::ios::binary);
  std::string const head(std::istreambuf_iterator<char>(file), {});
  auto const type = head.find("\"F64\"");
  ASSERT_NE(type, std::string::npos);
  changed_byte const change(path, type + 1, 'F' ^ 'I');
  auto const found = run_of<small_gpt::tp2>()({.steps = 3, .saves = {.folder = at.path}});
  EXPECT_EQ(found.begun_at, 2u);
}

TEST(Checkpoints, OfAnotherJobAreRefusedAndStay) {
  folder const at("others"), ours("ours");
  auto const other = run_of<data_parallel<2>, float>();
  auto const mine = run_of<data_parallel<2>>();
  other({.steps = 4, .saves = {.folder = at.path, .every = 4}});
  mine({.steps = 2, .saves = {.folder = ours.path, .every = 2}});
  files::rename(ours.path / "step-00000002", at.path / "step-00000002");
  // The newest checkpoint is used.
  expect_refused({.saves = {.folder = at.path}},
                 "step-00000004': precision is activations of 4, parameters of 4, gradients of 4 "
                 "bytes in the checkpoint and activations of 8");
  // A copied manifest that is valid by itself belongs to another step.
  files::copy_file(at.path / "step-00000002" / "plait.json",
                   at.path / "step-00000004" / "plait.json",
                   files::copy_options::overwrite_existing);
  EXPECT_EQ(mine({.steps = 3, .saves = {.folder = at.path}}).begun_at, 2u);

  checkpoint_folder const taken(ours.path, "job");
  expect_refused({.saves = {.folder = ours.path}},
                 "is in use: another job, or another `checkpoints` object of this program, writes");
}

TEST(Checkpoints, ThatFailAreReportedAndMayBeRequired) {
  folder const at("unwritable");
  files::create_directories(at.path);
  std::ofstream(at.path / "file") << "no folder";
  expect_refused({.saves = {.folder = at.path / "file" / "sub"}}, "cannot be");
  expect_refused({.saves = {.folder = at.path / "run", .keep = 0}},
                 "checkpoint_options::keep is 0; it must be at least 1");
  expect_refused({.saves = {.folder = at.path / "run", .every = -5}},
                 "checkpoint_options::every is -5; it must be at least 0");
  // Kills the job between two checkpoints, and while a checkpoint is written.
  for (std::int64_t const step : {2, 3}) {
    settings with{
        .steps = 5, .saves = {.folder = at.path / "run", .every = 2}, .folder_goes_at = step};
    ::testing::internal::CaptureStderr();
    auto const said = run_of<data_parallel<2>>()(with);
    std::string const told = ::testing::internal::GetCapturedStderr();
    // The folder never returns: the checkpoint that was begun is missing, and so is the next one.
    EXPECT_TRUE(
        told.starts_with("plait: the checkpoint of step 2 is missing, and training continues: "))
        << told;
    EXPECT_TRUE(told.ends_with(
        "plait: the checkpoint of step 4 is missing, and training continues: " + said.problem +
        "; correct this before the next checkpoint, or set checkpoint_options::required so that a "
        "missing checkpoint ends the job\n"))
        << told;
    EXPECT_EQ(std::ranges::count(told, '\n'), 2) << told;
    EXPECT_EQ(said.losses.size(), 5u);
    EXPECT_NE(said.problem.find(": "), std::string::npos) << said.problem;
    with.saves.required = true;
    files::remove_all(with.saves.folder);
    expect_refused(with, "checkpoint");
  }
}

}  // namespace
