// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <numbers>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "train/small_gpt.hpp"

namespace {

/// Returns a gradient that changes sign and size from step to step.
double gradient_at(int step, std::size_t index) {
  return std::sin(1.7 * step + 0.9 * double(index)) * (index % 3 == 0 ? 1e-3 : 2.0);
}

constexpr std::size_t count = 9;
// Factors of the gradient (clipping) and of the rate (schedule).
constexpr double scale = 0.25, factor = 0.5;

template <class Optimizer>
std::vector<double> train(Optimizer const& optimizer, int steps, float rate, float decay) {
  plait::ext::host_device device;
  std::vector<double> parameters(count, 1.5), gradients(count);
  std::vector<double> states(count * std::size_t(Optimizer::states));
  plait::ext::lean_vector<plait::ext::update_range> const ranges{{0, 4, rate, decay},
                                                                 {4, count - 4, rate, decay}};
  for (int step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < count; ++i) gradients[i] = gradient_at(step, i);
    auto const now = optimizer.numbers_of(step, factor);
    optimizer.update(device.on(plait::ext::stream::compute),
                     plait::ext::optimizer_arena<double>{.parameters = parameters.data(),
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
  for (auto const& [by, decay] : {std::pair{1.0f, 1.0f}, {1.0f, 0.0f}, {0.25f, 0.5f}}) {
    auto const got = train(optimizer, 7, by, decay);
    for (std::size_t i = 0; i < count; ++i) {
      double parameter = 1.5, m = 0, v = 0;
      for (int step = 0; step < 7; ++step) {
        double const g = scale * gradient_at(step, i), rate = factor * 0.02 * by, t = step + 1;
        m = 0.9 * m + 0.1 * g;
        v = 0.999 * v + 0.001 * g * g;
        double const unbiased_m = m / (1 - std::pow(0.9, t));
        double const unbiased_v = v / (1 - std::pow(0.999, t));
        parameter -= rate * 0.1 * decay * parameter;
        parameter -= rate * unbiased_m / (std::sqrt(unbiased_v) + 1e-8);
      }
      EXPECT_NEAR(got[i], parameter, 1e-13) << i;
    }
  }
}

TEST(Sgd, AddsDecayToTheGradientAndKeepsMomentum) {
  for (auto const& [momentum, rate, decay] :
       {std::tuple{0.0, 1.0f, 1.0f}, {0.8, 1.0f, 1.0f}, {0.8, 0.5f, 0.25f}}) {
    plait::sgd const optimizer{.learning_rate = 0.02, .momentum = momentum, .weight_decay = 0.1};
    auto const got = train(optimizer, 5, rate, decay);
    for (std::size_t i = 0; i < count; ++i) {
      double parameter = 1.5, velocity = 0;
      for (int step = 0; step < 5; ++step) {
        velocity = momentum * velocity + scale * gradient_at(step, i) + 0.1 * decay * parameter;
        parameter -= factor * 0.02 * rate * velocity;
      }
      EXPECT_NEAR(got[i], parameter, 1e-14) << i;
    }
  }
}

namespace rates = plait::rates;
using schedule = std::function<double(std::int64_t)>;

TEST(LearningRate, IsConstantByDefault) {
  for (std::int64_t const step : {0, 1, 1000}) {
    EXPECT_EQ(plait::execution::rate_at(schedule{}, step), 1.0);
    EXPECT_EQ(rates::constant{}(step), 1.0);
  }
}

TEST(LearningRate, WarmsUpToWhatFollows) {
  schedule const rises = rates::warm_up(4);
  EXPECT_EQ(rises(0), 0.25);  // the first step also has a rate
  EXPECT_EQ(rises(1), 0.5);
  EXPECT_EQ(rises(3), 1.0);
  EXPECT_EQ(rises(4), 1.0);
  EXPECT_EQ(rises(5000), 1.0);
  // Steps count from the start of training.
  schedule const own = rates::warm_up(2, [](std::int64_t step) { return 1.0 / double(step); });
  EXPECT_EQ(own(0), 0.25);
  EXPECT_EQ(own(1), 0.5);
  EXPECT_EQ(own(2), 0.5);
  EXPECT_EQ(own(8), 0.125);
  EXPECT_EQ(rates::warm_up(3, rates::step(5, 0.5))(5), 0.5);
  EXPECT_EQ(rates::warm_up(0, rates::linear(4))(2), 0.5);
}

TEST(LearningRate, FallsAlongHalfACosine) {
  schedule const falls = rates::warm_up(10, rates::cosine(110, 0.2));
  EXPECT_DOUBLE_EQ(falls(9), 1.0);
  EXPECT_DOUBLE_EQ(falls(10), 1.0);
  EXPECT_DOUBLE_EQ(falls(60), 0.6);  // the middle of the fall
  EXPECT_DOUBLE_EQ(falls(35), 0.2 + 0.8 * 0.5 * (1 + std::cos(std::numbers::pi / 4)));
  EXPECT_DOUBLE_EQ(falls(110), 0.2);
  EXPECT_DOUBLE_EQ(falls(1000), 0.2);
  for (std::int64_t step = 10; step < 110; ++step) EXPECT_GT(falls(step), falls(step + 1));
  EXPECT_DOUBLE_EQ(rates::cosine(100)(50), 0.55);
  auto const usual = rates::warm_up(10, rates::cosine(100));
  for (std::int64_t step = 0; step < 120; ++step)
    EXPECT_EQ(usual(step), step < 10
                               ? double(step + 1) / 10
                               : 0.1 + 0.9 * 0.5 *
                                           (1 + std::cos(std::numbers::pi *
                                                         std::min(1.0, double(step - 10) / 90))));
}

// Compares with the numbers of PyTorch's formulas.
TEST(LearningRate, IsThatOfPyTorch) {
  auto const follow = [](schedule const& got, std::vector<double> const& expected) {
    for (std::size_t step = 0; step < expected.size(); ++step)
      EXPECT_NEAR(got(std::int64_t(step)), expected[step], 1e-15) << step;
  };
  follow(
      rates::one_cycle(10),  // OneCycleLR(max_lr=1, total_steps=10)
      {0.040000000000000036, 0.52, 1, 0.95048463201347366, 0.81174565394976306, 0.61126202193628931,
       0.38874197806371075, 0.18825834605023697, 0.049519367986526286, 4e-06, 4e-06});
  follow(rates::one_cycle(8, 0.25, 10, 100),
         {0.1, 1, 0.93307968919032724, 0.75025, 0.5005, 0.25075, 0.067920310809672868, 0.001});
  follow(rates::one_cycle(3), {0.99441543545091171, 0.46263710266697505, 4e-06});
  follow(rates::linear(4, 0.5), {1, 0.875, 0.75, 0.625, 0.5, 0.5});  // LinearLR(1, 0.5, 4)
  follow(rates::step(2, 0.1), {1, 1, 0.1, 0.1, 0.01, 0.01, 0.001});  // StepLR(2, 0.1)
  follow([](std::int64_t step) { return std::pow(0.95, step); },     // LambdaLR
         {1, 0.95, 0.9025, 0.857375, 0.81450625});
}

TEST(LearningRate, SaysWhatItCannotBe) {
  auto const says = [](auto make, std::string const& text) {
    try {
      make();
      ADD_FAILURE() << "no error: " << text;
    } catch (plait::input_error const& problem) {
      EXPECT_NE(std::string(problem.what()).find(text), std::string::npos) << problem.what();
    }
  };
  says([] { rates::cosine(0); }, "rates::cosine: total is 0; it must be at least 1");
  says([] { rates::linear(5, -1); }, "rates::linear: final_fraction is -1; it must be a finite");
  says([] { rates::step(0); }, "rates::step: every is 0;");
  says([] { rates::step(1, std::nan("")); }, "rates::step: factor is nan;");
  says([] { rates::one_cycle(10, 1.5); }, "rates::one_cycle: rise is 1.5; it must be from 0 to 1");
  says([] { rates::one_cycle(10, 0.3, 0); }, "rates::one_cycle: a divisor is 0;");
  says([] { rates::warm_up(-1); }, "rates::warm_up: steps is -1;");
  says([] { rates::warm_up(100, rates::cosine(100)); },
       "warm_up(100, then): the total of then is 100; it must be more than the steps of the rise");
  says([] { plait::execution::rate_at([](std::int64_t step) { return 1.0 - double(step); }, 3); },
       "trainer_options::rate returned -2 at step 3;");
  says([] { plait::execution::rate_at([](std::int64_t) { return std::nan(""); }, 0); },
       "returned nan at step 0; the factor of the learning rate must be finite");
}

TEST(LearningRate, IsReportedAndUsedByTheTrainer) {
  using job = small_gpt::job<plait::serial>;
  auto const data = small_gpt::text();
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::sgd{.learning_rate = 0.5},
                                       {.rate = rates::warm_up(2, rates::cosine(4, 0.0))});
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
  auto const parameters = serial_plan::blocks(0, 0, serial_plan::grid);
  auto const end = serial_plan::parameter_layout_for(0, serial_plan::grid).count();
  plait::planning::owned_block const arena{{0, end}, 0};
  auto const all =
      plait::execution::update_ranges<serial_plan>(parameters, arena, plait::decay_all);
  ASSERT_EQ(all.size(), 1u);  // neighbours are updated together
  EXPECT_EQ(all[0].offset, 0u);
  EXPECT_EQ(all[0].count, end);
  EXPECT_EQ(all[0].rate, 1);
  EXPECT_EQ(all[0].decay, 1);

  auto const matrices =
      plait::execution::update_ranges<serial_plan>(parameters, arena, plait::decay_matrices);
  std::size_t decaying = 0, next = 0;
  for (auto const& range : matrices) {
    EXPECT_EQ(range.offset, next);
    next += range.count;
    if (range.decay != 0) decaying += range.count;
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
  EXPECT_EQ(one[1].decay, 1);
  EXPECT_EQ(one[1].count, plait::planning::rounded_up(small_gpt::length * small_gpt::width, 64));

  // This block begins and ends within parameters.
  plait::planning::owned_block const middle{{end / 2 - 64, 192}, 0};
  auto const some =
      plait::execution::update_ranges<serial_plan>(parameters, middle, plait::decay_all);
  ASSERT_EQ(some.size(), 1u);
  EXPECT_EQ(some[0].offset, 0u);
  EXPECT_EQ(some[0].count, 192u);
}

TEST(Ages, GrowTogetherAndSplitBlocksWhereTheyDiffer) {
  auto const parameters = serial_plan::blocks(0, 0, serial_plan::grid);
  auto const end = serial_plan::parameter_layout_for(0, serial_plan::grid).count();
  plait::planning::owned_block const arena{{0, end}, 0, 0, 0};
  auto const is_younger = [](auto const& parameter) {
    return parameter.name.starts_with("h.1.") || parameter.name == "wte.weight";
  };
  plait::execution::state_ages ages;
  plait::ext::lean_vector<std::int64_t> of(parameters.size());
  for (auto& age : of) age = 7;
  ages.set(of);
  auto const entries = serial_plan::entries.view();
  EXPECT_EQ(plait::execution::blocks_of_one_age(entries, parameters, arena, ages).size(), 1u);
  for (auto const& parameter : parameters)
    of[std::size_t(parameter.number)] = is_younger(parameter) ? 4 : 7;
  ages.set(of);
  ages.advance();
  for (auto const& parameter : parameters)
    EXPECT_EQ(ages.of(parameter.number), is_younger(parameter) ? 5 : 8) << parameter.name;
  auto const blocks = plait::execution::blocks_of_one_age(entries, parameters, arena, ages);
  std::size_t next = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    auto const& [block, younger_by, age, rows, columns] = blocks[i];
    if (i > 0) {
      EXPECT_NE(younger_by, blocks[i - 1].younger_by);
    }
    EXPECT_EQ(block.elements.offset, next);
    EXPECT_EQ(block.state_offset, next);
    EXPECT_EQ(block.parameters_at, next);
    EXPECT_EQ(block.gradients_at, next);
    next = block.elements.end();
    for (auto const& parameter : parameters)
      if (plait::planning::overlap(block.elements, parameter).count > 0) {
        EXPECT_EQ(younger_by, is_younger(parameter) ? 3 : 0) << parameter.name;
      }
  }
  EXPECT_EQ(next, end);
  // Equal ages are stored as one number; parameters without states do not count.
  of.resize(3);
  for (auto& one : of) one = 2;
  of[1] = plait::execution::state_ages::no_state;
  ages.set(of);
  EXPECT_TRUE(ages.are_equal());
  EXPECT_EQ(ages.oldest(), 2);
}

TEST(ParameterGroups, TheFirstThatMatchesCounts) {
  auto const parameters = serial_plan::blocks(0, 0, serial_plan::grid);
  auto const end = serial_plan::parameter_layout_for(0, serial_plan::grid).count();
  plait::planning::owned_block const arena{{0, end}, 0};
  auto const ranges = plait::execution::update_ranges<serial_plan>(
      parameters, arena, plait::decay_matrices,
      {{.pattern = "h.1.*", .rate = 0.5}, {.pattern = "h.*", .rate = 0.25, .decay = 3}});
  std::size_t next = 0;
  for (auto const& range : ranges) {
    EXPECT_EQ(range.offset, next);
    next += range.count;
  }
  EXPECT_EQ(next, end);
  for (auto const& parameter : parameters) {
    auto const& name = parameter.name;
    auto const found = std::ranges::find_if(
        ranges, [&](auto const& range) { return parameter.offset < range.offset + range.count; });
    bool const matrix = serial_plan::entries[parameter.entry].info.rank == 2;
    bool const first = name.starts_with("h.0."), second = name.starts_with("h.1.");
    EXPECT_EQ(found->rate, second ? 0.5f : first ? 0.25f : 1.0f) << name;
    EXPECT_EQ(found->decay, !matrix ? 0.0f : first ? 3.0f : 1.0f) << name;
  }
}

// With a gradient of zero (no valid label) only weight decay changes a weight, under every plan.
template <class Policy>
void check_only_matrices_decay() {
  using job = small_gpt::job<Policy>;
  auto const data = small_gpt::text();
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(
        rank,
        plait::adamw{.learning_rate = 0.5, .weight_decay = 0.2, .decays = plait::decay_matrices},
        {.groups = {{.pattern = "h.1.*", .rate = 0.5}, {.pattern = "h.*.attn.*", .decay = 2}}});
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
      double const kept = info.rank != 2                   ? 1
                          : name.starts_with("h.1.")       ? 1 - 0.5 * 0.5 * 0.2
                          : name.find("attn") != name.npos ? 1 - 0.5 * 0.2 * 2
                                                           : 1 - 0.5 * 0.2;
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_DOUBLE_EQ(values[i], kept * old[i]) << name;
    });
  });
}

TEST(DecayGroups, HoldUnderEveryPlan) {
  check_only_matrices_decay<plait::serial>();
  check_only_matrices_decay<small_gpt::tp2>();
  check_only_matrices_decay<small_gpt::three_axes>();
}

// --- groups and averages under each plan, against one rank and a loop by hand

using plait::named, plait::nn::linear;
using small_model =
    plait::objective<plait::sequential<named<"first", linear<8, 16>>, plait::nn::relu<16>,
                                       named<"second", linear<16, 8>>, named<"last", linear<8, 4>>>,
                     plait::nn::cross_entropy<4>>;
template <class Policy, class Element = double>
struct small_job : plait::parallel<small_model, Policy, Element> {};
using zero2 = plait::data_parallel<2, plait::zero<1>>;

using tensors = std::map<std::string, std::vector<double>>;
template <class Trainer>
tensors export_of(Trainer& trainer) {
  tensors out;
  trainer.export_parameters([&](std::string const& name, auto const&, auto values) {
    out[name].assign(values.begin(), values.end());
  });
  return out;
}

struct averaged {
  tensors weights, averages, by_hand;
  double loss = 0, loss_of_averages = 0;
  std::vector<double> outputs_of_averages;
};

constexpr double decay = 0.75;

template <class Job, class Backend = plait::threads>
averaged train_with_averages(Backend const& backend = {}) {
  using element = typename Job::element;
  auto const data = plait::in_memory<double>::random_classes(24, 8, 4);
  averaged out;
  plait::launch<Job>(backend, [&](auto& rank) {
    auto trainer =
        plait::trainer<Job>(rank, plait::adamw{.learning_rate = 0.05, .weight_decay = 0.1},
                            {.seed = 3,
                             .groups = {{.pattern = "second.*", .rate = 0.5, .decay = 2},
                                        {.pattern = "*.bias", .decay = 0}},
                             .average = decay});
    auto batches = plait::batches<element>(data, plait::global_batch<8>{}, rank, {.epochs = 0});
    auto by_hand = export_of(trainer);
    for (std::uint64_t step = 0; step < 4; ++step) {
      trainer.step(batches.at(step));
      auto const now = export_of(trainer);
      for (auto& [name, values] : by_hand)
        for (std::size_t i = 0; i < values.size(); ++i)
          values[i] = decay * values[i] + (1 - decay) * now.at(name)[i];
    }
    auto const& batch = batches.at(4);
    double const loss = trainer.evaluate(batch);
    auto const weights = export_of(trainer);
    tensors averages;
    std::vector<double> outputs;
    double const of_averages = trainer.with_ema([&] {
      averages = export_of(trainer);
      auto const predicted = trainer.predict(batch, plait::predicted::of_all);
      for (auto const value : predicted) outputs.push_back(static_cast<double>(value));
      return trainer.evaluate(batch);
    });
    EXPECT_EQ(trainer.evaluate(batch), loss);
    // An exception on one rank ends the call there as on all ranks.
    for (int thrower : {0, 1}) try {
        trainer.with_ema([&] {
          if (rank.world_rank() == thrower) throw std::runtime_error("in the middle");
        });
      } catch (std::runtime_error const&) {
      }
    EXPECT_EQ(trainer.evaluate(batch), loss);
    EXPECT_EQ(export_of(trainer), weights);
    trainer.step(batch);
    trainer.import_parameters([&](std::string const&, auto const&, auto values) {
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<typename Job::parameter_element>(0.25 * double(i % 3));
    });
    auto const imported = export_of(trainer);
    EXPECT_EQ(trainer.with_ema([&] { return export_of(trainer); }), imported);
    if (rank.is_root()) out = {weights, averages, by_hand, loss, of_averages, outputs};
  });
  return out;
}

void expect_near(tensors const& got, tensors const& expected, double bound) {
  ASSERT_EQ(got.size(), expected.size());
  for (auto const& [name, values] : expected)
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(got.at(name)[i], values[i], bound) << name << " " << i;
}

template <class Policy>
struct Averages : testing::Test {};
using policies = testing::Types<plait::data_parallel<2>, small_gpt::tp2, plait::pipeline<2>, zero2>;
TYPED_TEST_SUITE(Averages, policies);

TYPED_TEST(Averages, AreThoseOfTheSerialRun) {
  static auto const serial = train_with_averages<small_job<plait::serial>>();
  expect_near(serial.averages, serial.by_hand, 1e-15);
  EXPECT_GT(std::abs(serial.loss - serial.loss_of_averages), 1e-3);
  auto const got = train_with_averages<small_job<TypeParam>>();
  expect_near(got.weights, serial.weights, 1e-12);
  expect_near(got.averages, serial.averages, 1e-12);
  EXPECT_NEAR(got.loss, serial.loss, 1e-12);
  EXPECT_NEAR(got.loss_of_averages, serial.loss_of_averages, 1e-12);
  ASSERT_EQ(got.outputs_of_averages.size(), serial.outputs_of_averages.size());
  for (std::size_t i = 0; i < got.outputs_of_averages.size(); ++i)
    EXPECT_NEAR(got.outputs_of_averages[i], serial.outputs_of_averages[i], 1e-12);
}

// Layers read copies, of which each rank's optimizer writes a part.
TEST(AveragesInFloat, AreSeenInBfloat16) {
  using job = small_job<zero2, plait::precision<plait::bfloat16, float>>;
  auto const got = train_with_averages<job>();
  expect_near(got.averages, got.by_hand, 1e-6);
  EXPECT_GT(std::abs(got.loss - got.loss_of_averages), 1e-3);
}

}  // namespace
