// SPDX-License-Identifier: Apache-2.0
// test: timeout=300 seconds=15
//
// Steps that apply the gradients of the step before give the results of a serial program with the
// same delay, under every plan.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "plait/backend/simulated/race_error.hpp"
#include "plait/backend/simulated/simulated.hpp"
#include "plait/plait.hpp"
#include "plan/expected_calls.hpp"
#include "testing/event_orders.hpp"
#include "train/expect_planned.hpp"
#include "train/levels.hpp"
#include "train/small_gpt.hpp"
#include "train/whole_states.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;
using tensors = std::map<std::string, std::vector<double>>;

// A GPT without dropout, which the serial program could not repeat: it computes all of its
// gradients in step 0.
using plain_model =
    objective<sequential<named<"wte", nn::embedding<small_gpt::vocabulary, small_gpt::width>>,
                         named<"wpe", nn::positions<small_gpt::length, small_gpt::width>>,
                         named<"h", repeat<2, small_gpt::block>>,
                         named<"ln_f", nn::layer_norm<small_gpt::width>>,
                         named<"lm_head", nn::linear<small_gpt::width, small_gpt::vocabulary>>>,
              nn::cross_entropy<small_gpt::vocabulary>>;
template <class Policy, class Element = double>
struct job : parallel<plain_model, Policy, Element> {};
template <class Policy, class Element = double>
struct tied_job : parallel<levels::tied_model, Policy, Element> {};

constexpr std::size_t batch = 24;
constexpr double clip = 0.5;
constexpr adamw optimizer{.learning_rate = 1e-2, .weight_decay = 0.1};
double rate(std::int64_t step) { return 1 / (1 + 0.1 * double(step)); }
trainer_options options() { return {.seed = 7, .clip = clip, .rate = rate}; }

template <class Element>
auto into(tensors& to) {
  return [&to](std::string const& name, parameter_info const&, std::span<Element const> values) {
    to[name].assign(values.begin(), values.end());
  };
}

struct outcome {
  std::vector<double> losses, norms;
  std::vector<std::int64_t> gradient_steps;
  tensors weights, gradients;
  friend bool operator==(outcome const&, outcome const&) = default;
};

// --- the serial program: AdamW and clipping are written down here

/// Trains on one rank, with the gradients of the step before in every step. After the last step it
/// applies the last gradients.
template <template <class, class> class Job>
outcome train_by_hand(int steps) {
  using serial_job = Job<serial, double>;
  outcome out;
  auto const text = small_gpt::text();
  launch<serial_job>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<serial_job>(rank, optimizer, {.seed = 7});
    auto all = batches(text, global_batch<batch>{}, rank, {.epochs = 0, .microbatches = 1});
    tensors weights, first, second, pending;
    trainer.export_parameters(into<double>(weights));
    auto const update = [&](int step, int age) {
      double squares = 0;
      for (auto const& [name, gradient] : pending)
        for (double const g : gradient) squares += g * g;
      double const norm = std::sqrt(squares), factor = std::min(1.0, clip / (norm + 1e-6));
      out.norms.push_back(norm);
      out.gradient_steps.push_back(step - 1);
      double const learning_rate = optimizer.learning_rate * rate(step);
      double const correction1 = 1 - std::pow(optimizer.beta1, age + 1);
      double const correction2 = 1 - std::pow(optimizer.beta2, age + 1);
      for (auto const& [name, gradient] : pending) {
        auto &w = weights.at(name), &m = first[name], &v = second[name];
        m.resize(w.size()), v.resize(w.size());
        for (std::size_t i = 0; i < w.size(); ++i) {
          double const g = gradient[i] * factor;
          m[i] += (1 - optimizer.beta1) * (g - m[i]);
          v[i] = optimizer.beta2 * v[i] + (1 - optimizer.beta2) * g * g;
          w[i] = w[i] * (1 - learning_rate * optimizer.weight_decay) -
                 learning_rate / correction1 * m[i] /
                     (std::sqrt(v[i]) / std::sqrt(correction2) + optimizer.epsilon);
        }
      }
    };
    for (int step = 0; step < steps; ++step) {
      trainer.import_parameters(
          [&](std::string const& name, parameter_info const&, std::span<double> to) {
            std::ranges::copy(weights.at(name), to.begin());
          });
      out.losses.push_back(trainer.gradients_of(all.at(std::uint64_t(step))).loss);
      tensors now;
      trainer.export_gradients(into<double>(now));
      if (step > 0) update(step, step - 1);
      else out.norms.push_back(0), out.gradient_steps.push_back(-1);
      pending = now;
    }
    out.gradients = pending;
    update(steps, steps - 1);
    out.norms.pop_back(), out.gradient_steps.pop_back();
    out.weights = weights;
  });
  return out;
}

/// The result of train_by_hand, which is computed once.
template <template <class, class> class Job>
outcome const& by_hand() {
  static outcome const out = train_by_hand<Job>(20);
  return out;
}

// --- training with plait

template <class Job>
outcome train(auto const& backend, int steps = 20, int microbatches = 1,
              trainer_options const& with = options()) {
  outcome out;
  auto const text = small_gpt::text();
  launch<Job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, optimizer, with);
    auto all =
        batches(text, global_batch<batch>{}, rank, {.epochs = 0, .microbatches = microbatches});
    for (int step = 0; step < steps; ++step) {
      auto const report = trainer.step(all.at(std::uint64_t(step)));
      if (!rank.is_root()) continue;
      out.losses.push_back(report.loss);
      out.norms.push_back(report.gradient_norm);
      out.gradient_steps.push_back(report.gradient_step);
    }
    trainer.export_gradients(into<typename Job::gradient_element>(out.gradients));
    trainer.export_parameters(into<typename Job::parameter_element>(out.weights));
    workload const load{.rows = batch * small_gpt::length / std::size_t(microbatches) /
                                std::size_t(rank.grid().size(batch_axes)),
                        .microbatches = microbatches,
                        .data_ranks = rank.grid().size(batch_axes),
                        .averages = with.average > 0,
                        .gradient_norm = true};
    plait_test::expect_planned_memory<Job>(rank.stage(), trainer.allocated(), load);
    EXPECT_GT(trainer.allocated().pending, 0u);
  });
  return out;
}

void expect_near(tensors const& got, tensors const& expected, double most) {
  ASSERT_EQ(got.size(), expected.size());
  for (auto const& [name, values] : expected)
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(got.at(name)[i], values[i], most) << name << " at " << i;
}
void expect_near(outcome const& got, outcome const& expected, double most = 1e-12) {
  ASSERT_EQ(got.losses.size(), expected.losses.size());
  for (std::size_t i = 0; i < expected.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], expected.losses[i], most) << "step " << i;
    EXPECT_NEAR(got.norms[i], expected.norms[i], most) << "step " << i;
  }
  EXPECT_EQ(got.gradient_steps, expected.gradient_steps);
  expect_near(got.gradients, expected.gradients, most);
  expect_near(got.weights, expected.weights, most);
}

TEST(Delayed, IsASerialProgramWithTheSameDelay) {
  auto const& expected = by_hand<job>();
  EXPECT_GT(expected.norms[1], clip);
  expect_near(train<job<data_parallel<1, delayed<1>>>>(threads{}), expected);
  expect_near(train<job<data_parallel<2, delayed<1>>>>(threads{}), expected);
  expect_near(train<job<data_parallel<4, zero<1>, buckets<1>, delayed<1>>>>(threads{}), expected);
  expect_near(train<job<data_parallel<2, zero<2>, buckets<1>, delayed<1>>>>(threads{}, 20, 3),
              expected);
}
TEST(Delayed, IsThatUnderSeveralAxes) {
  using stages = pipeline<2>;
  auto const& expected = by_hand<job>();
  expect_near(train<job<hybrid<stages, data_parallel<2, delayed<1>>, small_gpt::tp2>>>(threads{}, 20, 2),
              expected);
  expect_near(train<job<hybrid<stages, data_parallel<2, zero<1>, delayed<1>>,
                               small_gpt::tp2_sharded, recompute<granularity::all>>>>(
                  threads{}, 20, 2),
              expected);
  expect_near(train<job<data_parallel<4, within<2>, zero<2>, buckets<1>, delayed<1>>>>(threads{}, 20, 2),
              expected);
  expect_near(train<job<hybrid<data_parallel<at_launch, delayed<1>, buckets<at_end>>, small_gpt::tp2>>>(
                  threads{.data_ranks = 3}, 20, 1),
              expected);
}
// Two uses of one table on a stage, padding, and frozen layers.
TEST(Delayed, IsThatForTiedAndFrozenLayers) {
  auto const& expected = by_hand<tied_job>();
  expect_near(train<tied_job<data_parallel<2, delayed<1>, buckets<1>>>>(threads{}, 20, 2), expected);
  expect_near(train<tied_job<hybrid<data_parallel<2, zero<1>, delayed<1>>, small_gpt::tp2>>>(threads{}), expected);
  expect_near(train<tied_job<data_parallel<3, zero<2>, delayed<1>, buckets<1>>>>(threads{}, 20, 2), expected);
}

// --- the calls of a step

template <class Job>
void expect_calls_of_the_list() {
  using plan = typename Job::plan_type;
  constexpr int microbatches = 2;
  auto const text = small_gpt::text();
  launch<Job>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, adamw{}, {.clip = 1.0});
    auto all = batches(text, global_batch<batch>{}, rank, {.microbatches = microbatches});
    workload const load{.rows = batch * small_gpt::length / microbatches /
                                std::size_t(rank.grid().size(batch_axes)),
                        .microbatches = microbatches,
                        .gradient_norm = true};
    auto const list = transfers_of<plan>(rank.stage(), load, job_part::training);
    std::vector<plait::detail::logged_call> log;
    trainer.step(all.at(0));
    for (auto const over : rank.groups().sets()) {
      rank.group(over).reset_counted();
      rank.group(over).log_calls(&log, static_cast<int>(over.bits));
    }
    for (std::uint64_t const step : {1, 2}) {
      trainer.step(all.at(step));
      EXPECT_EQ(expected_calls::lines_of(log),
                expected_calls::expansion<Job>(rank.grid(), rank.coordinates(), load,
                                               job_part::training)
                    .lines())
          << "step " << step << " on rank " << rank.world_rank();
      log.clear();
      if (step == 1) plait_test::expect_planned_bytes<Job>(rank, load);
    }
    for (auto const over : rank.groups().sets()) rank.group(over).log_calls(nullptr, 0);
  });
}
TEST(Delayed, CallsFollowTheList) {
  expect_calls_of_the_list<job<data_parallel<2, delayed<1>, buckets<1>>>>();
  expect_calls_of_the_list<tied_job<data_parallel<2, zero<1>, delayed<1>, buckets<1>>>>();
  expect_calls_of_the_list<tied_job<data_parallel<2, zero<2>, delayed<1>, buckets<1>>>>();
  expect_calls_of_the_list<job<data_parallel<4, within<2>, zero<2>, delayed<1>, buckets<1>>>>();
  expect_calls_of_the_list<job<hybrid<pipeline<2>, data_parallel<2, delayed<1>>,
                                      small_gpt::tp2_sharded>>>();
}

}  // namespace
