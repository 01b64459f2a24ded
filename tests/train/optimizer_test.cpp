// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>
#include <vector>

#include "train/small_gpt.hpp"

namespace {

/// Some gradient that changes sign and size from step to step.
double gradient_at(int step, std::size_t index) {
  return std::sin(1.7 * step + 0.9 * double(index)) * (index % 3 == 0 ? 1e-3 : 2.0);
}

constexpr std::size_t count = 9;
constexpr double scale = 0.25, factor = 0.5;  // of the gradient (clipping), of the rate (schedule)

template <class Optimizer>
std::vector<double> train(Optimizer const& optimizer, int steps, bool decay) {
  plait::host_device device;
  std::vector<double> parameters(count, 1.5), gradients(count);
  std::vector<double> states(count * std::size_t(Optimizer::states));
  std::vector<plait::update_range> const ranges{{0, 4, decay}, {4, count - 4, decay}};
  for (int step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < count; ++i) gradients[i] = gradient_at(step, i);
    auto const now = optimizer.numbers_of(step, factor);
    optimizer.update(device.on(plait::stream::compute),
                     plait::optimizer_arena<double>{.parameters = parameters.data(),
                                                    .gradients = gradients.data(),
                                                    .states = states.data(),
                                                    .count = count,
                                                    .state_stride = count,
                                                    .ranges = ranges.data(),
                                                    .range_count = 2,
                                                    .gradient_scale = &scale},
                     &now);
  }
  return parameters;
}

TEST(AdamW, IsTheFormulaOfThePaper) {
  plait::adamw const optimizer{.learning_rate = 0.02, .weight_decay = 0.1};
  for (bool const decay : {true, false}) {
    auto const got = train(optimizer, 7, decay);
    for (std::size_t i = 0; i < count; ++i) {
      double parameter = 1.5, m = 0, v = 0;
      for (int step = 0; step < 7; ++step) {
        double const g = scale * gradient_at(step, i), rate = factor * 0.02, t = step + 1;
        m = 0.9 * m + 0.1 * g;
        v = 0.999 * v + 0.001 * g * g;
        double const unbiased_m = m / (1 - std::pow(0.9, t));
        double const unbiased_v = v / (1 - std::pow(0.999, t));
        if (decay) parameter -= rate * 0.1 * parameter;
        parameter -= rate * unbiased_m / (std::sqrt(unbiased_v) + 1e-8);
      }
      EXPECT_NEAR(got[i], parameter, 1e-13) << i;
    }
  }
}

TEST(Sgd, AddsDecayToTheGradientAndKeepsMomentum) {
  for (double const momentum : {0.0, 0.8}) {
    plait::sgd const optimizer{.learning_rate = 0.02, .momentum = momentum, .weight_decay = 0.1};
    auto const got = train(optimizer, 5, true);
    for (std::size_t i = 0; i < count; ++i) {
      double parameter = 1.5, velocity = 0;
      for (int step = 0; step < 5; ++step) {
        velocity = momentum * velocity + scale * gradient_at(step, i) + 0.1 * parameter;
        parameter -= factor * 0.02 * velocity;
      }
      EXPECT_NEAR(got[i], parameter, 1e-14) << i;
    }
  }
}

TEST(LearningRate, IsConstantByDefault) {
  plait::learning_rate_schedule const schedule;
  for (std::int64_t const step : {0, 1, 1000}) EXPECT_EQ(schedule.factor(step), 1.0);
}

TEST(LearningRate, WarmsUpToTheWholeRate) {
  auto const schedule = plait::constant_rate(4);
  EXPECT_EQ(schedule.factor(0), 0.25);  // the first step is not lost
  EXPECT_EQ(schedule.factor(1), 0.5);
  EXPECT_EQ(schedule.factor(3), 1.0);
  EXPECT_EQ(schedule.factor(4), 1.0);
  EXPECT_EQ(schedule.factor(5000), 1.0);
}

TEST(LearningRate, FallsAlongHalfACosine) {
  auto const schedule = plait::cosine_rate(10, 110, 0.2);
  EXPECT_DOUBLE_EQ(schedule.factor(9), 1.0);
  EXPECT_DOUBLE_EQ(schedule.factor(10), 1.0);
  EXPECT_DOUBLE_EQ(schedule.factor(60), 0.6);  // half way
  EXPECT_DOUBLE_EQ(schedule.factor(35), 0.2 + 0.8 * 0.5 * (1 + std::cos(std::numbers::pi / 4)));
  EXPECT_DOUBLE_EQ(schedule.factor(110), 0.2);
  EXPECT_DOUBLE_EQ(schedule.factor(1000), 0.2);
  for (std::int64_t step = 10; step < 110; ++step)
    EXPECT_GT(schedule.factor(step), schedule.factor(step + 1));
}

TEST(LearningRate, IsReportedAndUsedByTheTrainer) {
  using job = small_gpt::job<plait::serial>;
  auto const data = small_gpt::text();
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::sgd{.learning_rate = 0.5},
                                       {.rate = plait::cosine_rate(2, 4, 0.0)});
    auto batches = plait::batches(data, plait::global_batch<4>{}, rank);
    std::vector<double> before, after;
    auto const last_bias = [&](std::vector<double>& out) {
      trainer.export_parameters([&](auto const& name, auto const&, auto values) {
        if (name == "lm_head.bias") out.assign(values.begin(), values.end());
      });
    };
    for (double const rate : {0.25, 0.5, 0.5, 0.25, 0.0}) {
      last_bias(before);
      EXPECT_DOUBLE_EQ(trainer.step(batches.at(0)).learning_rate, rate);
      last_bias(after);
      EXPECT_EQ(before == after, rate == 0.0);
    }
  });
}

using serial_plan = small_gpt::job<plait::serial>::plan_type;

TEST(DecayGroups, AreChosenByNameAndRank) {
  auto const parameters = plait::parameters_of_stage<serial_plan>(0, serial_plan::grid);
  auto const end = serial_plan::parameter_layout_for(0, serial_plan::grid).count();
  plait::planning::owned_block const arena{{0, end}, 0};
  auto const all =
      plait::execution::update_ranges<serial_plan>(parameters, arena, plait::decay_all);
  ASSERT_EQ(all.size(), 1u);  // neighbours are updated together
  EXPECT_EQ(all[0].offset, 0u);
  EXPECT_EQ(all[0].count, end);
  EXPECT_EQ(all[0].decays, 1);

  auto const matrices =
      plait::execution::update_ranges<serial_plan>(parameters, arena, plait::decay_matrices);
  std::size_t decaying = 0, next = 0;
  for (auto const& range : matrices) {
    EXPECT_EQ(range.offset, next);
    next += range.count;
    if (range.decays != 0) decaying += range.count;
  }
  EXPECT_EQ(next, end);
  std::size_t matrices_and_padding = 0;
  for (auto const& parameter : parameters)
    if (serial_plan::entries[parameter.entry].info.rank == 2)
      matrices_and_padding +=
          plait::planning::rounded_up(parameter.count, plait::planning::parameter_alignment);
  EXPECT_EQ(decaying, matrices_and_padding);

  auto const one = plait::execution::update_ranges<serial_plan>(
      parameters, arena,
      [](plait::parameter_description const& what) { return what.name == "wpe.weight"; });
  ASSERT_EQ(one.size(), 3u);
  EXPECT_EQ(one[1].decays, 1);
  EXPECT_EQ(one[1].count, plait::planning::rounded_up(small_gpt::length * small_gpt::width, 64));

  // A block that begins and ends within parameters.
  plait::planning::owned_block const middle{{end / 2 - 64, 192}, 0};
  auto const some =
      plait::execution::update_ranges<serial_plan>(parameters, middle, plait::decay_all);
  ASSERT_EQ(some.size(), 1u);
  EXPECT_EQ(some[0].offset, 0u);
  EXPECT_EQ(some[0].count, 192u);
}

// With a gradient of zero (no valid label) only decay moves a weight. Under every plan.
template <class Policy>
void check_only_matrices_decay() {
  using job = small_gpt::job<Policy>;
  auto const data = small_gpt::text();
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(
        rank,
        plait::adamw{.learning_rate = 0.5, .weight_decay = 0.2, .decays = plait::decay_matrices});
    auto batches = plait::batches(data, plait::global_batch<4>{}, rank);
    auto batch = batches.at(0);
    std::vector<std::int32_t> ignored(batch.rows() * std::size_t(batch.microbatches), -100);
    batch.host_targets = ignored.data();
    batch.targets = reinterpret_cast<std::byte*>(ignored.data());
    std::vector<std::vector<double>> before;
    trainer.export_parameters([&](auto const&, auto const&, auto values) {
      before.emplace_back(values.begin(), values.end());
    });
    EXPECT_EQ(trainer.step(batch).loss, 0.0);
    std::size_t at = 0;
    trainer.export_parameters([&](auto const& name, auto const& info, auto values) {
      auto const& old = before[at++];
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_DOUBLE_EQ(values[i], info.rank == 2 ? 0.9 * old[i] : old[i]) << name;
    });
  });
}

TEST(DecayGroups, HoldUnderEveryPlan) {
  check_only_matrices_decay<plait::serial>();
  check_only_matrices_decay<small_gpt::tp2>();
  check_only_matrices_decay<small_gpt::three_axes>();
}

}  // namespace
