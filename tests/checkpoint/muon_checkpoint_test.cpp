// SPDX-License-Identifier: Apache-2.0
// test: libs=checkpoint
//
// Checkpoints of Muon: the states of matrices have a name of their own, and a run that updates a
// parameter by another rule is refused or, on request, begins with new states.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "plait/checkpoint/checkpoints.hpp"
#include "plait/checkpoint/manifest_text.hpp"
#include "plait/plait.hpp"
#include "plait/plan/zero_of_matrices.hpp"
#include "plait/train/muon.hpp"
#include "train/whole_states.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
namespace files = std::filesystem;
using whole_states::states;

using net =
    objective<sequential<named<"in", nn::linear<6, 12>>, nn::gelu<12>,
                         named<"mid", nn::linear<12, 8>>, nn::gelu<8>,
                         named<"frozen", frozen<nn::linear<8, 8>>>, named<"out", nn::linear<8, 4>>>,
              nn::cross_entropy<4>>;
template <class Policy>
struct job : parallel<net, Policy, double> {};
using one = job<serial>;
using several = job<hybrid<pipeline<2>, data_parallel<2, zero_of_matrices<1>, buckets<at_end>>>>;

struct folder {
  explicit folder(std::string const& name)
      : path(files::path(::testing::TempDir()) / ("plait_muon_" + name)) {
    files::remove_all(path);
  }
  ~folder() { files::remove_all(path); }
  files::path path;
};

bool all_matrices(parameter_description const& what) { return what.rank == 2; }
bool not_out(parameter_description const& what) {
  return what.rank == 2 && what.name != "out.weight";
}

constexpr double rate = 0.02, decay = 0.1;
muon with_matrices(bool (*matrices)(parameter_description const&)) {
  return {.learning_rate = rate, .weight_decay = decay, .matrices = matrices};
}
adamw const by_adamw{.learning_rate = rate, .weight_decay = decay};

struct outcome {
  states end;
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> gradients;  ///< the gradients of the last step
};

/// Trains up to a step, from the newest checkpoint, and saves a checkpoint of this step.
template <class Job>
outcome train(files::path const& path, auto const& optimizer, std::int64_t steps,
              std::vector<std::string> allow = {}) {
  outcome out;
  std::mutex lock;
  auto const data = in_memory<double>::random_classes(48, 6, 4);
  launch<Job>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, optimizer, {.seed = 3, .average = 0.9});
    auto all = batches<double>(data, global_batch<24>{}, rank, {.epochs = 0});
    checkpoints saves(trainer, all, {.folder = path, .every = 1, .allow = allow});
    for (auto at = saves.resume(); trainer.step_number() < steps; ++at) {
      auto const report = trainer.step(all.at(at));
      if (rank.is_root()) out.losses.push_back(report.loss);
      saves.after_step();
    }
    saves.finish();
    EXPECT_EQ(saves.problem(), "");
    whole_states::save(*trainer.state(), out.end, lock);
    if (trainer.step_number() > 0)
      trainer.export_gradients([&](std::string const& name, auto const&, auto values) {
        out.gradients[name].assign(values.begin(), values.end());
      });
  });
  return out;
}

std::string error_of(auto const& run) {
  try {
    run();
  } catch (input_error const& e) {
    return e.what();
  }
  return "no error";
}
void expect_contains(std::string const& text, std::string const& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

std::set<std::string> names_in(files::path const& checkpoint) {
  std::set<std::string> out;
  for (auto const& tensor : read_manifest(checkpoint).tensors) out.insert(tensor.name);
  return out;
}
std::map<std::string, std::int64_t> ages_in(files::path const& checkpoint) {
  auto const manifest = read_manifest(checkpoint);
  return {manifest.ages.begin(), manifest.ages.end()};
}

TEST(MuonCheckpoint, NamesTheStatesOfMatricesByThemselves) {
  std::set<std::string> expected{"frozen.weight", "frozen.bias"};
  auto const add = [&](std::string const& name, std::vector<std::string> const& states) {
    for (auto const& suffix : states) expected.insert(name + suffix);
  };
  for (auto const* name : {"in.weight", "mid.weight"})
    add(name, {"", ".muon_momentum", ".average"});
  for (auto const* name : {"in.bias", "mid.bias", "out.weight", "out.bias"})
    add(name, {"", ".exp_avg", ".exp_avg_sq", ".average"});
  folder const serial_at("names"), several_at("names_of_several");
  train<one>(serial_at.path, with_matrices(not_out), 1);
  train<several>(several_at.path, with_matrices(not_out), 1);
  EXPECT_EQ(names_in(serial_at.path / "step-00000001"), expected);
  EXPECT_EQ(names_in(several_at.path / "step-00000001"), expected);
}

TEST(MuonCheckpoint, ContinuesWithTheBitsOfAnUndisturbedRun) {
  auto const expect_same = [](auto which, char const* name) {
    using Job = decltype(which);
    folder const whole(std::string("whole_") + name), parts(std::string("parts_") + name);
    auto const expected = train<Job>(whole.path, with_matrices(not_out), 5);
    train<Job>(parts.path, with_matrices(not_out), 3);
    auto const rest = train<Job>(parts.path, with_matrices(not_out), 5);
    EXPECT_EQ(rest.end.tensors, expected.end.tensors);
    EXPECT_EQ(rest.losses, (std::vector(expected.losses.begin() + 3, expected.losses.end())));
    EXPECT_TRUE(ages_in(parts.path / "step-00000005").empty());
  };
  expect_same(one{}, "one");
  expect_same(several{}, "several");
}

TEST(MuonCheckpoint, ContinuesUnderAnotherPlan) {
  folder const whole("plan_whole"), part("plan_part");
  auto const expected = train<one>(whole.path, with_matrices(not_out), 5).end;
  train<several>(part.path, with_matrices(not_out), 3);
  auto const rest = train<one>(part.path, with_matrices(not_out), 5).end;
  ASSERT_EQ(rest.tensors.size(), expected.tensors.size());
  for (auto const& [name, values] : expected.tensors)
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(rest.tensors.at(name)[i], values[i], 1e-12) << name;
}

TEST(MuonCheckpoint, RefusesAnotherChoiceOfMatrices) {
  folder const at("refused");
  train<one>(at.path, with_matrices(all_matrices), 2);
  std::string const text =
      "step-00000002': matrices of muon selects other parameters: 'out.weight' is updated as a "
      "whole matrix in the checkpoint and element by element now; resume with the same settings, "
      "or "
      "list the settings that may differ in checkpoint_options::allow";
  expect_contains(error_of([&] { train<one>(at.path, with_matrices(not_out), 3); }), text);
  expect_contains(error_of([&] { train<several>(at.path, with_matrices(not_out), 3); }), text);
  expect_contains(error_of([&] { train<one>(at.path, by_adamw, 3); }),
                  "step-00000002': optimizer is muon in the checkpoint and adamw now; resume with");
}

/// Checks a step by AdamW of states of age 0, from `before` to `after`.
void expect_first_step_of_adamw(std::string const& name, outcome const& before,
                                outcome const& after) {
  auto const &old = before.end.tensors.at(name), &now = after.end.tensors.at(name);
  auto const& gradient = after.gradients.at(name);
  ASSERT_EQ(old.size(), now.size());
  for (std::size_t i = 0; i < now.size(); ++i) {
    double const g = gradient[i];
    double const by_hand = old[i] * (1 - rate * decay) - rate * g / (std::abs(g) + 1e-8);
    EXPECT_NEAR(now[i], by_hand, 1e-12) << name << " " << i;
    EXPECT_NEAR(after.end.tensors.at(name + ".exp_avg")[i], 0.1 * g, 1e-15);
    EXPECT_NEAR(after.end.tensors.at(name + ".exp_avg_sq")[i], 0.001 * g * g, 1e-15);
  }
}
/// Checks a step by AdamW from the states in `before`.
void expect_later_step_of_adamw(std::string const& name, int step, outcome const& before,
                                outcome const& after) {
  auto const& from = before.end.tensors;
  for (std::size_t i = 0; i < from.at(name).size(); ++i) {
    double const g = after.gradients.at(name)[i];
    double const first = 0.9 * from.at(name + ".exp_avg")[i] + 0.1 * g;
    double const second = 0.999 * from.at(name + ".exp_avg_sq")[i] + 0.001 * g * g;
    double const divisor = std::sqrt(second / (1 - std::pow(0.999, step))) + 1e-8;
    double const by_hand =
        from.at(name)[i] * (1 - rate * decay) - rate * first / (1 - std::pow(0.9, step)) / divisor;
    EXPECT_NEAR(after.end.tensors.at(name)[i], by_hand, 1e-12) << name << " " << i;
  }
}

TEST(MuonCheckpoint, ResetsTheStatesOfParametersThatChangeTheirRule) {
  folder const at("allowed");
  auto const before = train<one>(at.path, with_matrices(all_matrices), 4);
  auto const after = train<one>(at.path, with_matrices(not_out), 5, {"matrices"});
  expect_first_step_of_adamw("out.weight", before, after);
  expect_later_step_of_adamw("out.bias", 5, before, after);
  EXPECT_EQ(ages_in(at.path / "step-00000005"),
            (std::map<std::string, std::int64_t>{{"out.weight", 1}}));
  // Other matrices keep their momentum.
  auto const &momentum = before.end.tensors.at("in.weight.muon_momentum"),
             &next = after.end.tensors.at("in.weight.muon_momentum");
  for (std::size_t i = 0; i < momentum.size(); ++i)
    EXPECT_NEAR(next[i], 0.95 * momentum[i] + 0.05 * after.gradients.at("in.weight")[i], 1e-15);

  // The matrix begins with a new momentum when Muon updates it again.
  auto const again = train<several>(at.path, with_matrices(all_matrices), 6, {"optimizer"});
  auto const& begun = again.end.tensors.at("out.weight.muon_momentum");
  for (std::size_t i = 0; i < begun.size(); ++i)
    EXPECT_NEAR(begun[i], 0.05 * again.gradients.at("out.weight")[i], 1e-15);
  EXPECT_EQ(ages_in(at.path / "step-00000006"),
            (std::map<std::string, std::int64_t>{{"out.weight", 1}}));
}

TEST(MuonCheckpoint, GivesAdamwNewStatesForMatricesAndTheOldOnesForVectors) {
  folder const at("to_adamw"), by_sgd("to_sgd");
  auto const before = train<one>(at.path, with_matrices(all_matrices), 4);
  files::copy(at.path, by_sgd.path, files::copy_options::recursive);
  auto const after = train<one>(at.path, by_adamw, 5, {"optimizer"});
  for (auto const* name : {"in.weight", "mid.weight", "out.weight"})
    expect_first_step_of_adamw(name, before, after);
  for (auto const* name : {"in.bias", "mid.bias", "out.bias"})
    expect_later_step_of_adamw(name, 5, before, after);
  auto const later = train<one>(at.path, by_adamw, 15);
  for (double const loss : later.losses) EXPECT_LT(loss, 1.1 * before.losses.front());

  // SGD takes none of the states.
  auto const of_sgd =
      train<one>(by_sgd.path, sgd{.learning_rate = rate, .momentum = 0.9}, 5, {"optimizer"});
  for (auto const* name : {"in.weight", "in.bias", "mid.weight", "mid.bias", "out.weight"})
    EXPECT_EQ(of_sgd.end.tensors.at(std::string(name) + ".momentum_buffer"),
              of_sgd.gradients.at(name))
        << name;
}

TEST(MuonCheckpoint, TakesTheStatesOfVectorsFromAdamw) {
  folder const at("from_adamw");
  auto const before = train<one>(at.path, by_adamw, 4);
  auto const refused = error_of([&] { train<one>(at.path, with_matrices(not_out), 5); });
  expect_contains(refused, "': optimizer is adamw in the checkpoint and muon now; resume with");
  auto const after = train<one>(at.path, with_matrices(not_out), 5, {"optimizer"});
  for (auto const* name : {"in.bias", "mid.bias", "out.bias", "out.weight"})
    expect_later_step_of_adamw(name, 5, before, after);
  for (auto const* name : {"in.weight", "mid.weight"}) {
    auto const& begun = after.end.tensors.at(std::string(name) + ".muon_momentum");
    for (std::size_t i = 0; i < begun.size(); ++i)
      EXPECT_NEAR(begun[i], 0.05 * after.gradients.at(name)[i], 1e-15) << name;
  }
}

/// An optimizer of whole matrices without `name`, `state_names` and `matrix_state_names`.
struct nameless {
  using concept_tag = optimizer_tag;
  using numbers = muon::numbers;
  using whole_matrices = muon::whole_matrices;
  static constexpr int states = muon::states;
  muon rule = with_matrices(not_out);
  bool (*decays)(parameter_description const&) = decay_all;

  [[nodiscard]] bool matrices(parameter_description const& what) const {
    return rule.matrices(what);
  }
  [[nodiscard]] numbers numbers_of(std::int64_t age, double factor) const {
    return rule.numbers_of(age, factor);
  }
  template <class Parameter>
  [[nodiscard]] static std::size_t scratch_bytes(std::size_t rows, std::size_t columns) {
    return muon::scratch_bytes<Parameter>(rows, columns);
  }
  template <class Queue, class Arena>
  void update(Queue queue, Arena const& of, numbers const* now) const {
    rule.update(queue, of, now);
  }
};

TEST(MuonCheckpoint, OfAnOptimizerOfOnesOwnKeepsTheStatesOfMatricesApart) {
  folder const at("nameless"), muon_at("nameless_muon");
  train<one>(at.path, nameless{}, 2);
  auto const names = names_in(at.path / "step-00000002");
  for (auto const* name : {"in.weight.matrix_state_0", "in.weight.matrix_state_1",
                           "out.weight.state_0", "out.weight.state_1"})
    EXPECT_TRUE(names.contains(name)) << name;
  EXPECT_FALSE(names.contains("in.weight.state_0"));
  auto const resumed = train<one>(at.path, nameless{}, 4);
  auto const expected = train<one>(muon_at.path, with_matrices(not_out), 4);
  for (auto const* name : {"in.weight", "out.weight", "out.bias"})
    EXPECT_EQ(resumed.end.tensors.at(name), expected.end.tensors.at(name)) << name;
  nameless other{};
  other.rule.matrices = all_matrices;
  expect_contains(error_of([&] { train<one>(at.path, other, 5); }),
                  "matrices of state_0 state_1 selects other parameters: 'out.weight' is updated "
                  "element by element in the checkpoint and as a whole matrix now");
}

}  // namespace
