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
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "plait/backend/simulated/race_error.hpp"
#include "plait/backend/simulated/simulated.hpp"
#include "plait/plait.hpp"
#include "plait/plan/zero_of_matrices.hpp"
#include "plan/expected_calls.hpp"
#include "testing/event_orders.hpp"
#include "train/broken_loss.hpp"
#include "train/expect_planned.hpp"
#include "train/levels.hpp"
#include "train/small_gpt.hpp"
#include "train/whole_states.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;
using tensors = std::map<std::string, std::vector<double>>;

// Dropout depends on the step, and the serial program computes all gradients in step 0, so this GPT
// has no dropout.
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

// A head that uses the table of the embedding, with six rows of padding.
using small_table = nn::embedding<250, 8, normal(0.5), 256>;
using small_head =
    nn::linear<8, 250,
               nn::linear_options{
                   .bias = false, .order = nn::weight_order::output_input, .padded_to = 256}>;
using small_model = objective<
    sequential<named<"wte", small_table>, named<"wpe", nn::positions<small_gpt::length, 8>>,
               named<"ln", nn::layer_norm<8>>,
               named<"head", tied<small_head, small_head::weight, "wte.weight">>>,
    nn::cross_entropy<250, nn::cross_entropy_options{.padded_to = 256}>>;
template <class Policy, class Element = double>
struct small_job : parallel<small_model, Policy, Element> {};
using staged_model = objective<
    sequential<named<"wte", nn::embedding<small_gpt::vocabulary, 8>>,
               named<"wpe", nn::positions<small_gpt::length, 8>>, named<"ln", nn::layer_norm<8>>,
               named<"head", nn::linear<8, small_gpt::vocabulary>>>,
    nn::cross_entropy<small_gpt::vocabulary>>;
template <class Policy, class Element = double>
struct staged_job : parallel<staged_model, Policy, Element> {};

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

/// Trains on one rank, with the gradients of the step before in every step. After the last step,
/// and after the steps in `applied_after`, it applies the gradients that are pending.
template <template <class, class> class Job>
outcome train_by_hand(int steps, std::set<int> const& applied_after = {}) {
  using serial_job = Job<serial, double>;
  outcome out;
  auto const text = small_gpt::text();
  launch<serial_job>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<serial_job>(rank, optimizer, {.seed = 7});
    auto all = batches(text, global_batch<batch>{}, rank, {.epochs = 0, .microbatches = 1});
    tensors weights, first, second, pending;
    trainer.export_parameters(into<double>(weights));
    int age = 0;
    auto const update = [&](int step) {
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
      ++age;
      pending.clear();
    };
    for (int step = 0; step < steps; ++step) {
      trainer.import_parameters(
          [&](std::string const& name, parameter_info const&, std::span<double> to) {
            std::ranges::copy(weights.at(name), to.begin());
          });
      out.losses.push_back(trainer.gradients_of(all.at(std::uint64_t(step))).loss);
      tensors now;
      trainer.export_gradients(into<double>(now));
      if (!pending.empty()) update(step);
      else out.norms.push_back(0), out.gradient_steps.push_back(-1);
      out.gradients = pending = now;
      if (step + 1 < steps && !applied_after.contains(step)) continue;
      update(step);
      out.norms.pop_back(), out.gradient_steps.pop_back();
    }
    out.weights = weights;
  });
  return out;
}

/// The result of train_by_hand, which is computed once.
template <template <class, class> class Job, int Steps = 20>
outcome const& by_hand() {
  static outcome const out = train_by_hand<Job>(Steps);
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

using of_blocks = hybrid<data_parallel<2, zero<1>, delayed<1>, buckets<1>>, small_gpt::tp2>;

TEST(Delayed, IsASerialProgramWithTheSameDelay) {
  auto const& expected = by_hand<job>();
  EXPECT_GT(expected.norms[1], clip);
  expect_near(train<job<data_parallel<1, delayed<1>>>>(threads{}), expected);
  expect_near(train<job<data_parallel<2, delayed<1>>>>(threads{}), expected);
  expect_near(train<job<data_parallel<4, zero<1>, buckets<1>, delayed<1>>>>(threads{}), expected);
  expect_near(train<job<data_parallel<2, zero<2>, buckets<1>, delayed<1>>>>(threads{}, 20, 3),
              expected);
}
TEST(Delayed, EqualsSerialUnderSeveralAxes) {
  using stages = pipeline<2>;
  auto const& expected = by_hand<job>();
  expect_near(train<job<hybrid<stages, data_parallel<2, delayed<1>>, small_gpt::tp2_sharded>>>(
                  threads{}, 20, 2),
              expected);
  expect_near(
      train<job<hybrid<stages, data_parallel<2, zero<1>, delayed<1>>, small_gpt::tp2_sharded,
                       recompute<granularity::all>>>>(threads{}, 20, 2),
      expected);
  expect_near(
      train<job<data_parallel<4, within<2>, zero<2>, delayed<1>, buckets<1>>>>(threads{}, 20, 2),
      expected);
  expect_near(
      train<job<hybrid<data_parallel<at_launch, delayed<1>, buckets<at_end>>, small_gpt::tp2>>>(
          threads{.data_ranks = 3}, 20, 1),
      expected);
}
// Rounded gradients of the step before are exchanged in the rooms of the arena of gradients, which
// no pass touches.
TEST(Delayed, WorksWithRoundedGradients) {
  using rounded = compressed<plait::bfloat16>;
  auto const expected = train<job<data_parallel<2, delayed<1>>>>(threads{}, 6, 2);
  auto const near = [&]<class Policy>(Policy) {
    auto const got = train<job<Policy>>(threads{}, 6, 2);
    EXPECT_EQ(got.gradient_steps, expected.gradient_steps);
    for (std::size_t i = 0; i < expected.losses.size(); ++i) {
      EXPECT_NEAR(got.losses[i], expected.losses[i], 1e-3) << "step " << i;
      EXPECT_NEAR(got.norms[i], expected.norms[i], 1e-2) << "step " << i;
    }
  };
  near(data_parallel<2, delayed<1>, rounded, buckets<1>>{});
  near(data_parallel<2, zero<1>, delayed<1>, rounded>{});
}
// Two uses of one table on a stage, padding, and frozen layers.
TEST(Delayed, EqualsSerialWithTiedAndFrozenLayers) {
  auto const& expected = by_hand<tied_job, 8>();
  expect_near(
      train<tied_job<data_parallel<2, zero_of_matrices<1>, delayed<1>, buckets<1>>>>(threads{}, 8),
      expected);
  expect_near(train<tied_job<of_blocks>>(threads{}, 8), expected);
  expect_near(train<tied_job<data_parallel<3, zero<2>, delayed<1>, buckets<1>>>>(threads{}, 8, 2),
              expected);
}

// --- calls between the steps

/// Trains as train() does, and calls between(trainer, batches, step) after each step.
template <class Job>
outcome train_with(auto const& backend, int steps, trainer_options const& with, auto between) {
  outcome out;
  auto const text = small_gpt::text();
  launch<Job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, optimizer, with);
    auto all = batches(text, global_batch<batch>{}, rank, {.epochs = 0, .microbatches = 2});
    for (int step = 0; step < steps; ++step) {
      auto const report = trainer.step(all.at(std::uint64_t(step)));
      EXPECT_EQ(trainer.last_report()->gradient_step, report.gradient_step);
      if (rank.is_root()) {
        out.losses.push_back(report.loss);
        out.norms.push_back(report.gradient_norm);
        out.gradient_steps.push_back(report.gradient_step);
      }
      between(trainer, all, step);
    }
    trainer.export_gradients(into<typename Job::gradient_element>(out.gradients));
    trainer.export_parameters(into<typename Job::parameter_element>(out.weights));
  });
  return out;
}

using stages_of_two = pipeline<2, one_forward_one_backward, cut_at<2>>;

TEST(Delayed, AppliesPendingGradientsWhereParametersAreRead) {
  auto const expected = train_by_hand<job>(9, {1, 2, 4, 5, 6});
  auto with = options();
  with.average = 0.9;
  std::mutex lock;
  std::vector<double> seen;
  auto const got =
      train_with<job<of_blocks>>(threads{}, 9, with, [&](auto& trainer, auto& all, int step) {
        tensors unused;
        if (step == 1) {
          double const loss = trainer.evaluate(all.at(7));
          EXPECT_EQ(trainer.evaluate(all.at(7)), loss);
          std::scoped_lock const alone{lock};
          seen.push_back(loss);
        }
        if (step == 2) (void)trainer.predict(all.at(0));
        if (step == 4) trainer.export_parameters(into<double>(unused));
        if (step == 5) trainer.with_ema([&] { return trainer.evaluate(all.at(0)); });
        if (step == 6) trainer.after_steps();
      });
  expect_near(got, expected);
  // The evaluation has seen the weights after all updates so far.
  auto const after_two = train_by_hand<job>(2);
  launch<job<serial>>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job<serial>>(rank, optimizer, {.seed = 7});
    trainer.import_parameters(
        [&](std::string const& name, parameter_info const&, std::span<double> to) {
          std::ranges::copy(after_two.weights.at(name), to.begin());
        });
    auto const text = small_gpt::text();
    auto all = batches(text, global_batch<batch>{}, rank, {.epochs = 0});
    for (double const loss : seen) EXPECT_NEAR(loss, trainer.evaluate(all.at(7)), 1e-12);
  });
  EXPECT_EQ(seen.size(), 4u);
}

TEST(Delayed, WorksWithUnequalShares) {
  using uneven = data_parallel<2, shares<3, 1>, delayed<1>>;
  expect_near(train_with<job<uneven>>(threads{}, 8, options(), [](auto&, auto&, int) {}),
              train_by_hand<job>(8));
}

TEST(Delayed, ExportsTheGradientsOfTheLastStepAndOfABatch) {
  auto const expected = train_by_hand<job>(8, {5});
  tensors of_step, of_batch, again;
  auto const got =
      train_with<job<of_blocks>>(threads{}, 8, options(), [&](auto& trainer, auto& all, int step) {
        if (step == 3) {  // gradients that are exported stay pending
          trainer.export_gradients(into<double>(of_step));
          trainer.export_gradients(into<double>(again));
        }
        if (step == 5) {
          trainer.gradients_of(all.at(9));
          trainer.export_gradients(into<double>(of_batch));
        }
      });
  expect_near(got, expected);
  EXPECT_EQ(of_step, again);
  expect_near(of_step, train_by_hand<job>(4).gradients, 1e-12);
  auto const weights = train_by_hand<job>(6).weights;
  tensors right;
  launch<job<serial>>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job<serial>>(rank, optimizer, {.seed = 7});
    trainer.import_parameters(
        [&](std::string const& name, parameter_info const&, std::span<double> to) {
          std::ranges::copy(weights.at(name), to.begin());
        });
    auto const text = small_gpt::text();
    auto all = batches(text, global_batch<batch>{}, rank, {.epochs = 0});
    trainer.gradients_of(all.at(9));
    trainer.export_gradients(into<double>(right));
  });
  expect_near(of_batch, right, 1e-12);
}

// --- states

template <class Job>
outcome resume(auto const& backend, whole_states::states const* from, int first, int steps,
               whole_states::states* saved, int saved_after) {
  outcome out;
  std::mutex lock;
  auto const text = small_gpt::text();
  auto with = options();
  with.average = 0.9;
  launch<Job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, optimizer, with);
    auto all = batches(text, global_batch<batch>{}, rank, {.epochs = 0, .microbatches = 2});
    if (from != nullptr)
      whole_states::load<typename Job::parameter_element>(*trainer.state(), *from);
    EXPECT_EQ(trainer.step_number(), first);
    for (int step = first; step < steps; ++step) {
      auto const report = trainer.step(all.at(std::uint64_t(step)));
      if (rank.is_root()) {
        out.losses.push_back(report.loss);
        out.norms.push_back(report.gradient_norm);
        out.gradient_steps.push_back(report.gradient_step);
      }
      if (saved != nullptr && step == saved_after)
        whole_states::save(*trainer.state(), *saved, lock);
    }
    trainer.export_gradients(into<typename Job::gradient_element>(out.gradients));
    trainer.export_parameters(into<typename Job::parameter_element>(out.weights));
    trainer.with_ema([&] {
      tensors averages;
      trainer.export_parameters(into<typename Job::parameter_element>(averages));
      for (auto const& [name, values] : averages) out.weights[name + ".average"] = values;
    });
  });
  return out;
}

outcome part_of(outcome all, int first) {
  for (auto* const numbers : {&all.losses, &all.norms})
    numbers->erase(numbers->begin(), numbers->begin() + first);
  all.gradient_steps.erase(all.gradient_steps.begin(), all.gradient_steps.begin() + first);
  return all;
}

template <class Job, class Other>
void expect_goes_on(auto const& backend) {
  whole_states::states saved;
  auto const undisturbed = resume<Job>(backend, nullptr, 0, 8, nullptr, 0);
  EXPECT_EQ(resume<Job>(backend, nullptr, 0, 8, &saved, 4), undisturbed);
  EXPECT_EQ(saved.step, 5);
  EXPECT_TRUE(saved.tensors.contains("ln.weight.pending_gradient"));
  EXPECT_EQ(resume<Job>(backend, &saved, 5, 8, nullptr, 0), part_of(undisturbed, 5));
  if constexpr (!std::is_void_v<Other>)
    expect_near(resume<Other>(threads{}, &saved, 5, 8, nullptr, 0), part_of(undisturbed, 5));
}
TEST(Delayed, GoesOnFromASavedState) {
  expect_goes_on<staged_job<data_parallel<2, delayed<1>, buckets<1>>>, staged_job<of_blocks>>(
      threads{});
  expect_goes_on<staged_job<of_blocks>, staged_job<data_parallel<1, delayed<1>>>>(threads{});
  expect_goes_on<small_job<data_parallel<4, within<2>, zero<2>, delayed<1>, buckets<1>>>,
                 small_job<data_parallel<2, zero<1>, delayed<1>>>>(threads{});
  expect_goes_on<
      staged_job<hybrid<stages_of_two, data_parallel<2, delayed<1>>, small_gpt::tp2_sharded>>,
      staged_job<of_blocks>>(threads{});
  expect_goes_on<staged_job<of_blocks, precision<plait::bfloat16, float>>, void>(threads{});
}
// Without pending gradients there are none to save.
TEST(Delayed, AStateWithoutPendingGradientsHasNoTensorsOfThem) {
  using with = job<data_parallel<2, delayed<1>>>;
  whole_states::states saved;
  std::mutex lock;
  train_with<with>(threads{}, 6, options(), [&](auto& trainer, auto&, int step) {
    if (step != 3) return;
    trainer.after_steps();
    whole_states::save(*trainer.state(), saved, lock);
    for (auto const& tensor : trainer.state()->tensors())
      EXPECT_EQ(tensor.name.find("pending"), std::string::npos) << tensor.name;
  });
  EXPECT_FALSE(saved.tensors.contains("ln_f.weight.pending_gradient"));
  auto const text = small_gpt::text();
  launch<with>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<with>(rank, optimizer, options());
    auto all = batches(text, global_batch<batch>{}, rank, {.epochs = 0});
    whole_states::load<double>(*trainer.state(), saved);
    EXPECT_EQ(trainer.step(all.at(4)).gradient_step, -1);
    EXPECT_EQ(trainer.step(all.at(5)).gradient_step, 4);
  });
}

// --- steps that are not finite

struct numbers_of_steps {
  std::vector<std::int64_t> gradient_steps, skipped;
  std::vector<bool> are_finite;
  tensors weights;
  std::string problem;
};
/// Trains with a rate that makes the second update useless.
template <class Policy>
numbers_of_steps overflow(trainer_options::not_finite how) {
  numbers_of_steps out;
  auto const text = small_gpt::text();
  try {
    launch<job<Policy>>(threads{}, [&](auto& rank) {
      auto trainer = plait::trainer<job<Policy>>(
          rank, sgd{.learning_rate = 1},
          {.rate = [](std::int64_t step) { return step == 2 ? 1e200 : 0.01; },
           .rate_above_1 = true,
           .on_not_finite = how});
      auto all = batches(text, global_batch<batch>{}, rank, {.epochs = 0});
      try {
        for (std::uint64_t step = 0; step < 6; ++step) {
          auto const report = trainer.step(all.at(step));
          if (!rank.is_root()) continue;
          out.gradient_steps.push_back(report.gradient_step);
          out.skipped.push_back(report.skipped);
          out.are_finite.push_back(std::isfinite(report.loss));
        }
      } catch (not_finite_error const&) {
        trainer.export_parameters(into<double>(out.weights));
        throw;
      }
      trainer.export_parameters(into<double>(out.weights));
    });
  } catch (not_finite_error const& e) {
    out.problem = e.what();
  }
  return out;
}
double greatest(tensors const& of) {
  double most = 0;
  for (auto const& [name, values] : of)
    for (double const value : values) most = std::max(most, std::abs(value));
  return most;
}
TEST(Delayed, GradientsOfASkippedStepAreNotApplied) {
  using enum trainer_options::not_finite;
  auto const expected = overflow<data_parallel<1, delayed<1>>>(skip);
  EXPECT_EQ(expected.are_finite, (std::vector<bool>{true, true, true, false, false, false}));
  // Step 3 still applies the gradients of step 2.
  EXPECT_EQ(expected.gradient_steps, (std::vector<std::int64_t>{-1, 0, 1, 2, -1, -1}));
  EXPECT_EQ(expected.skipped, (std::vector<std::int64_t>{0, 0, 0, 1, 2, 3}));
  auto const got = overflow<hybrid<pipeline<2>, data_parallel<2, zero<1>, delayed<1>>>>(skip);
  EXPECT_EQ(got.gradient_steps, expected.gradient_steps);
  EXPECT_EQ(got.skipped, expected.skipped);
  expect_near(got.weights, expected.weights, 1e-10 * greatest(expected.weights));
}
TEST(Delayed, AJobEndsAtTheStepWhoseLossIsNotFinite) {
  using enum trainer_options::not_finite;
  auto const got = overflow<hybrid<pipeline<2>, data_parallel<2, zero<1>, delayed<1>>>>(stop);
  EXPECT_EQ(got.problem.find("trainer: step 3: the loss is "), 0u) << got.problem;
  EXPECT_NE(got.problem.find("the first layer whose output is not finite is"), std::string::npos)
      << got.problem;
  EXPECT_EQ(got.gradient_steps.size(), 3u);
  // The weights are those with which the step has computed its loss.
  auto const before = overflow<data_parallel<1, delayed<1>>>(stop);
  expect_near(got.weights, before.weights, 1e-10 * greatest(before.weights));
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
      EXPECT_EQ(
          expected_calls::lines_of(log),
          expected_calls::expansion<Job>(rank.grid(), rank.coordinates(), load, job_part::training)
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
  expect_calls_of_the_list<tied_job<of_blocks>>();
  expect_calls_of_the_list<tied_job<data_parallel<3, zero<2>, delayed<1>, buckets<1>>>>();
  expect_calls_of_the_list<job<data_parallel<2, delayed<1>, compressed<float8>>>>();
  expect_calls_of_the_list<job<data_parallel<4, within<2>, zero<2>, delayed<1>, buckets<1>>>>();
  expect_calls_of_the_list<
      job<hybrid<pipeline<2>, data_parallel<2, delayed<1>>, small_gpt::tp2_sharded>>>();
}

// Each microbatch is still summed within a group of neighbours; the rest is a step late.
TEST(Delayed, IsExplained) {
  using groups = plan<objective<nn::linear<1023, 1024>, nn::cross_entropy<1024>>,
                      data_parallel<4, within<2>, zero<2>, delayed<1>>>;
  auto const text = explain(groups{}, {.rows = 8, .microbatches = 3});
  for (std::string const line : {"3      4096 KiB\n", "1      2048 KiB       the next step\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
}

// --- a gradient that is not finite, although the loss is

struct broken_job : parallel<broken_loss::model, data_parallel<2, zero<1>, delayed<1>>, double> {};

TEST(Delayed, GradientsThatAreNotFiniteAreLeftOutWhenTheyWouldBeApplied) {
  broken_loss::with_broken_batch<broken_job>(
      {.on_not_finite = trainer_options::not_finite::skip}, [](auto& trainer, auto& from) {
        EXPECT_EQ(trainer.step(from.at(0)).gradient_step, -1);
        auto const broken = trainer.step(from.at(1));  // applies the gradients of step 0
        EXPECT_TRUE(std::isfinite(broken.loss) && std::isfinite(broken.gradient_norm));
        EXPECT_EQ(broken.skipped, 0);
        auto const next = trainer.step(from.at(2));
        EXPECT_TRUE(std::isnan(next.gradient_norm));
        EXPECT_EQ(next.gradient_step, 1);
        EXPECT_EQ(next.skipped, 1);
        auto const after = trainer.step(from.at(3));
        EXPECT_TRUE(std::isfinite(after.gradient_norm));
        EXPECT_EQ(after.gradient_step, 2);
        EXPECT_EQ(after.skipped, 1);
      });
}
TEST(Delayed, TheStepOfGradientsThatAreNotFiniteIsNamed) {
  auto const message_of = [](auto action) -> std::string {
    try {
      broken_loss::with_broken_batch<broken_job>({.clip = 1}, [&](auto& trainer, auto& from) {
        trainer.step(from.at(0));
        trainer.step(from.at(1));
        action(trainer, from);
      });
    } catch (not_finite_error const& e) {
      return e.what();
    }
    return "";
  };
  auto const in_a_step = message_of([](auto& trainer, auto& from) { trainer.step(from.at(2)); });
  EXPECT_EQ(in_a_step.find(
                "trainer: step 2: the norm of the gradients of step 1, which it applies, is nan"),
            0u)
      << in_a_step;
  auto const between = message_of([](auto& trainer, auto& from) { trainer.evaluate(from.at(2)); });
  EXPECT_NE(between.find("the norm of the gradients of step 1 is not finite"), std::string::npos)
      << between;
}

// --- simulated devices

template <class Job>
void expect_no_race(std::uint64_t seeds, int data_ranks) {
  auto const run = [&](auto const& backend) { return train<Job>(backend, 3, 2); };
  auto const expected = run(threads{.data_ranks = data_ranks});
  simulated_statistics statistics;
  for (std::uint64_t seed = 0; seed < plait_test::event_orders(seeds); ++seed)
    ASSERT_EQ(run(simulated{.data_ranks = data_ranks, .seed = seed, .statistics = &statistics}),
              expected)
        << seed;
  auto const list =
      transfers_of<typename Job::plan_type>(0, {.data_ranks = data_ranks}, job_part::training);
  auto const place_of = [&](int site) {
    int const row = row_of_site(site);
    return row >= 0 && row < int(list.size()) ? list[std::size_t(row)].place
                                              : transfer_place::consistency;
  };
  int waits_for_pending = 0;
  for (auto const& site : statistics.sites) {
    if (site.where != wait_site::part::step) continue;
    // The host has waited for a step, and waits for the data that it reads. Messages within layers
    // have waited for earlier computations, as rows of tied uses do.
    if (site.awaited % (1 << 16) == int(operation_kind::send) ||
        site.waiting % (1 << 16) == int(operation_kind::read) ||
        place_of(site.waiting) == transfer_place::activation_edge ||
        place_of(site.waiting) == transfer_place::gradient_edge ||
        place_of(site.waiting) == transfer_place::ties)
      continue;
    // A stage without the loss only has zeros for it, which no forward writes.
    if (place_of(site.waiting) == transfer_place::loss && Job::plan_type::stages > 1) continue;
    if (place_of(site.awaited) == transfer_place::gradients) ++waits_for_pending;
    EXPECT_THROW(run(simulated{.data_ranks = data_ranks, .without = site}), race_error)
        << to_string(site);
  }
  // Sums of microbatches follow the pending gradients on their stream, so waits for the sums
  // suffice.
  if (!Job::plan_type::rules.sums_blocks()) {
    EXPECT_GT(waits_for_pending, 0);
  }
}
TEST(DelayedSimulated, HasNoRaceAndNoWaitTooMany) {
  expect_no_race<small_job<data_parallel<at_launch, delayed<1>, buckets<1>>>>(20, 2);
  expect_no_race<small_job<data_parallel<at_launch, zero<1>, delayed<1>, buckets<1>>>>(20, 2);
  expect_no_race<small_job<data_parallel<at_launch, compressed<plait::bfloat16>, delayed<1>>>>(5,
                                                                                               2);
  expect_no_race<small_job<data_parallel<4, within<2>, zero<2>, delayed<1>, buckets<1>>>>(20, 4);
  expect_no_race<
      staged_job<hybrid<stages_of_two, data_parallel<2, delayed<1>>, small_gpt::tp2_sharded>>>(20,
                                                                                               2);
}

// --- programs that are wrong

using faulty_job = small_job<data_parallel<2, delayed<1>, buckets<1>>>;

/// Runs two steps, the second by a program; returns the weights and the norm of each rank.
std::vector<std::vector<double>> steps_by(levels::listed_program const& with, auto const& backend) {
  std::vector<std::vector<double>> out(2);
  auto const text = small_gpt::text();
  launch<faulty_job>(backend, [&](auto& rank) {
    using rank_type = std::remove_cvref_t<decltype(rank)>;
    plait::execution::trainer_parts<faulty_job, rank_type, sgd> parts(
        rank, sgd{.learning_rate = 0.1}, {.clip = 0.01});
    parts.set_up();
    auto all = batches(text, global_batch<batch>{}, rank, {.microbatches = 2});
    auto const mine = parts.calls();
    auto& of_rank = out[std::size_t(rank.world_rank())];
    {
      auto const first = all.at(0);
      auto frame = parts.begin(first, plait::execution::trainer_program::without_update);
      parts.executor.run(
          parts.executor.passes.program(plait::execution::trainer_program::without_update), frame);
      parts.read_report();
    }
    plait::execution::step_executor<rank_type> program(rank, with.list, with.program);
    for (std::uint64_t step = 1; step < 3; ++step) {
      auto const next = all.at(step);
      auto frame = parts.begin(next, plait::execution::trainer_program::whole_step);
      parts.executor.run(program, frame);
      of_rank.push_back(parts.read_report().gradient_norm);
    }
    std::vector<double> weights(parts.store.layout().kept_count());
    rank.device().download(parts.store.compute_parameters(), weights.data(),
                           weights.size() * sizeof(double));
    rank.device().synchronize();
    of_rank.insert(of_rank.end(), weights.begin(), weights.end());
  });
  return out;
}
TEST(DelayedMutants, AreFound) {
  auto const right = levels::listed_program::of<faulty_job::plan_type>(faulty_job::plan_type::grid);
  auto const expected = steps_by(right, threads{});
  EXPECT_EQ(expected[0], expected[1]);
  EXPECT_EQ(steps_by(right, simulated{}), expected);
  auto const row = [&](int which) {
    return right.find(operation_kind::row, transfer_place::gradients, which);
  };
  auto const kind = [&](operation_kind what) { return right.find(what, {}, 0); };
  EXPECT_LT(row(0), kind(operation_kind::forward));
  auto const expect_found = [&](char const* name, auto change) {
    auto changed = right;
    change(changed);
    EXPECT_NE(steps_by(changed, threads{}), expected) << name;
  };
  expect_found("a bucket left out", [&](auto& of) { of.erase(row(1)); });
  expect_found("a bucket doubled", [&](auto& of) {
    auto const at = std::ptrdiff_t(row(1));
    of.program.operations.insert(of.program.operations.begin() + at, of.program.operations[row(1)]);
    of.program.touched.insert(of.program.touched.begin() + at, of.program.touched[row(1)]);
  });
  expect_found("gradients not handed over",
               [&](auto& of) { of.erase(kind(operation_kind::hand_over)); });
  expect_found("gradients handed over before the update", [&](auto& of) {
    of.move(kind(operation_kind::hand_over), kind(operation_kind::square));
  });
  expect_found("gradients handed over before tied uses are added", [&](auto& of) {
    auto const add = kind(operation_kind::add);
    of.move(kind(operation_kind::update), add);
    of.move(kind(operation_kind::hand_over), add + 1);
  });
  expect_found("a bucket reduced after the update",
               [&](auto& of) { of.move(row(0), kind(operation_kind::update)); });
  // The norm, the update and the copy together wait for the reduction: without all three waits
  // there is a race.
  auto changed = right;
  for (auto const what :
       {operation_kind::square, operation_kind::update, operation_kind::hand_over}) {
    changed.program.touched[kind(what)].reads.clear();
    changed.program.touched[kind(what)].writes.clear();
  }
  EXPECT_THROW(steps_by(changed, simulated{}), race_error);
}

}  // namespace
