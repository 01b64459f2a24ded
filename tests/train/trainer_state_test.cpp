// SPDX-License-Identifier: Apache-2.0
// test: timeout=300 seconds=5
//
// The state that a trainer saves under one plan is loaded under any other.
#include "plait/train/trainer_state.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plait/plan/zero_of_matrices.hpp"
#include "plait/train/muon.hpp"
#include "train/small_gpt.hpp"

namespace {

using namespace plait;
using namespace plait::ext;

/// Whole tensors by the name of the parameter and the kind, and how often each element was saved.
struct whole_state {
  std::map<std::string, std::vector<double>> tensors;
  std::map<std::string, std::vector<int>> times;
  std::int64_t step = 0;
};
struct outcome {
  std::vector<double> losses;
  whole_state end;
};

template <class T>
void save(saved_state const& state, whole_state& to, std::mutex& lock) {
  std::vector<T> copy(state.count());
  auto const rectangles = state.rectangles();
  for (std::size_t kind = 0; kind < state.kinds().size(); ++kind) {
    state.copy(kind, copy.data());
    std::lock_guard const alone(lock);
    for (auto const& [name, info, where, is_frozen, is_matrix] : rectangles) {
      auto const& suffix = (is_matrix ? state.matrix_kinds() : state.kinds())[kind];
      if (kind > 0 && (is_frozen || suffix.empty())) continue;
      auto& tensor = to.tensors[name + suffix];
      auto& times = to.times[name + suffix];
      tensor.resize(info.count());
      times.resize(info.count());
      for (std::size_t i = 0; i < where.rows; ++i)
        for (std::size_t j = 0; j < where.columns; ++j) {
          std::size_t const at = (where.row + i) * info.columns + where.column + j;
          tensor[at] = static_cast<double>(copy[where.place + i * where.stride + j]);
          ++times[at];
        }
    }
  }
  to.step = state.step();
}

/// Elements of whole tensors, in the type of a trainer.
template <class T>
struct from_memory final : state_source {
  explicit from_memory(whole_state const& all) : tensors(all.tensors) {}
  void read(std::string const& name, parameter_info const& info, parameter_rectangle const& where,
            void* out) override {
    auto const& tensor = tensors.at(name);
    for (std::size_t i = 0; i < where.count(); ++i)
      static_cast<T*>(out)[i] =
          static_cast<T>(tensor[(where.row + i / where.columns) * info.columns + where.column +
                                i % where.columns]);
  }
  std::map<std::string, std::vector<double>> const& tensors;
};

template <class T>
void load(saved_state& state, whole_state const& from) {
  from_memory<T> source(from);
  for (std::size_t kind = 0; kind < state.kinds().size(); ++kind) state.restore(kind, source);
  state.go_on_at({from.step, static_cast<std::uint64_t>(from.step)});
}

/// Trains some steps, from a state if one is given.
template <class Job, class Optimizer>
outcome train(Optimizer optimizer, int data_ranks, int microbatches, double average,
              whole_state const* from, int steps) {
  outcome out;
  std::mutex lock;
  auto const text = small_gpt::text();
  launch<Job>(threads{.data_ranks = data_ranks}, [&](auto& rank) {
    auto trainer =
        plait::trainer<Job>(rank, optimizer, {.seed = 3, .clip = 1.0, .average = average});
    auto all = batches(text, global_batch<>{8}, rank, {.epochs = 0, .microbatches = microbatches});
    using element = typename Job::parameter_element;
    if (from != nullptr) load<element>(*trainer.state(), *from);
    for (int i = 0; i < steps; ++i) {
      double const loss = trainer.step(all.at(std::uint64_t(trainer.step_number()))).loss;
      if (rank.is_root()) out.losses.push_back(loss);
    }
    auto const state = trainer.state();
    save<element>(*state, out.end, lock);
    EXPECT_EQ(state->count() * state->kinds().size() * sizeof(element),
              Job::plan_type::host_bytes(rank.stage(), {.data_ranks = data_ranks,
                                                        .optimizer_states = Optimizer::states,
                                                        .averages = average > 0}));
  });
  for (auto const& [name, times] : out.end.times)
    for (int const each : times) EXPECT_EQ(each, 1) << name;
  return out;
}

using runner = std::function<outcome(whole_state const*, int)>;

template <class Job, class Optimizer>
runner run_of_job(Optimizer optimizer, double average, int data_ranks = 0, int microbatches = 2) {
  return [=](whole_state const* from, int steps) {
    return train<Job>(optimizer, data_ranks, microbatches, average, from, steps);
  };
}
template <class Policy, class Element, class Optimizer>
runner run_of(Optimizer optimizer, double average, int data_ranks = 0) {
  return run_of_job<small_gpt::job<Policy, Element>>(optimizer, average, data_ranks);
}

void expect_all_pairs(std::vector<runner> const& plans, double tolerance) {
  constexpr int half = 3;
  std::vector<outcome> whole, first;
  for (auto const& run : plans) {
    whole.push_back(run(nullptr, 2 * half));
    first.push_back(run(nullptr, half));
    ASSERT_EQ(first.back().end.step, half);
  }
  for (std::size_t a = 0; a < plans.size(); ++a)
    for (std::size_t b = 0; b < plans.size(); ++b) {
      SCOPED_TRACE("from plan " + std::to_string(a) + " to plan " + std::to_string(b));
      // A state that is loaded and saved again is equal bit for bit.
      EXPECT_EQ(plans[b](&first[a].end, 0).end.tensors, first[a].end.tensors);
      auto const rest = plans[b](&first[a].end, half);
      auto const& expected = whole[a];
      ASSERT_EQ(rest.losses.size(), std::size_t(half));
      for (int i = 0; i < half; ++i) {
        double const loss = expected.losses[std::size_t(half + i)];
        EXPECT_NEAR(rest.losses[std::size_t(i)], loss, a == b ? 0.0 : tolerance);
      }
      if (a == b) {
        EXPECT_EQ(rest.end.tensors, expected.end.tensors);
      }
    }
}

constexpr adamw by_adamw{.learning_rate = 0.02, .weight_decay = 0.1};

TEST(TrainerState, GoesFromEachPlanToEachOther) {
  using data = data_parallel<at_launch, zero<1>>;
  using zero = hybrid<pipeline<2>, data, small_gpt::tp2>;
  using two_cut_axes = hybrid<small_gpt::sharded_replicas<2>, data, small_gpt::tp2>;
  expect_all_pairs(
      {run_of<serial, double>(by_adamw, 0.9), run_of<data_parallel<2>, double>(by_adamw, 0.9),
       run_of<small_gpt::tp2_sharded, double>(by_adamw, 0.9),
       run_of<pipeline<2>, double>(by_adamw, 0.9), run_of<zero, double>(by_adamw, 0.9, 2),
       run_of<small_gpt::three_axes, double>(by_adamw, 0.9),
       run_of<two_cut_axes, double>(by_adamw, 0.9, 2)},
      1e-10);
}

TEST(TrainerState, InFloatGoesFromEachPlanToEachOther) {
  using zero = hybrid<pipeline<2>, data_parallel<2, zero<1>>, small_gpt::tp2>;
  expect_all_pairs(
      {run_of<serial, float>(by_adamw, 0.9), run_of<small_gpt::tp2_sharded, float>(by_adamw, 0.9),
       run_of<zero, float>(by_adamw, 0.9)},
      1e-4);
}

TEST(TrainerState, OfMuonGoesFromEachPlanToEachOther) {
  muon const by_muon{.learning_rate = 0.02, .matrices = [](parameter_description const& what) {
                       return what.rank == 2 && what.name.starts_with("h.");
                     }};
  expect_all_pairs(
      {run_of<serial, double>(by_muon, 0.9), run_of<pipeline<2>, double>(by_muon, 0.9),
       run_of<data_parallel<2, zero_of_matrices<1>, buckets<at_end>>, double>(by_muon, 0.9)},
      1e-10);
}

// No rank saves the padding of the table, and the head does not have its own tensor.
TEST(TrainerState, OfATiedHeadWithAPaddedVocabulary) {
  using zero = hybrid<data_parallel<2, zero<1>>, small_gpt::tp2>;
  std::vector<runner> const plans{
      run_of_job<small_gpt::tied_job<serial>>(by_adamw, 0),
      run_of_job<small_gpt::tied_job<small_gpt::tp2_sharded>>(by_adamw, 0),
      run_of_job<small_gpt::tied_job<zero>>(by_adamw, 0)};
  auto const state = plans[2](nullptr, 1).end.tensors;
  EXPECT_EQ(state.at("wte.weight").size(), small_gpt::tied_vocabulary * small_gpt::width);
  EXPECT_FALSE(state.contains("lm_head.weight"));
  expect_all_pairs(plans, 1e-10);
}

// Optimizers own the master weights; layers read them rounded.
TEST(TrainerState, OfMixedPrecisionIsThatOfTheOptimizer) {
  using mixed = precision<plait::bfloat16, float>;
  constexpr sgd optimizer{.learning_rate = 0.05, .momentum = 0.9};
  expect_all_pairs({run_of<data_parallel<2>, mixed>(optimizer, 0),
                    run_of<hybrid<pipeline<2>, small_gpt::tp2>, mixed>(optimizer, 0),
                    run_of<hybrid<data_parallel<2, zero<1>>, small_gpt::tp2>, mixed>(optimizer, 0)},
                   0.02);
}

}  // namespace
