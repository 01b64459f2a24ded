// SPDX-License-Identifier: Apache-2.0
// test: timeout=300 seconds=10
//
// AdamW whose states are bfloat16: the same bits under every plan, half of the memory, and rounding
// without a bias.
#include "plait/train/adamw_bfloat16.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plait/plait.hpp"
#include "train/expect_planned.hpp"
#include "train/small_gpt.hpp"
#include "train/whole_states.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using whole_states::states;

// Biases make the lengths odd, and the matrices are cut by rows and by columns.
using net = objective<
    sequential<named<"in", nn::linear<6, 12>>, nn::gelu<12>, named<"norm", nn::layer_norm<12>>,
               named<"up", nn::linear<12, 20>>, nn::relu<20>, named<"down", nn::linear<20, 12>>,
               nn::dropout<12, 100>, named<"out", nn::linear<12, 2>>>,
    nn::mse<2>>;
template <class Policy, class Element = double>
struct job : parallel<net, Policy, Element> {};

using any_ranks = data_parallel<at_launch>;
template <int Level>
using sharded = data_parallel<at_launch, zero<Level>>;
using tp2 = tensor_parallel<2>;
using three_axes = hybrid<pipeline<2>, sharded<1>, tp2>;

struct samples {
  using concept_tag = dataset_tag;
  using element = double;
  using target = double;
  [[nodiscard]] std::size_t size() const { return 96; }
  [[nodiscard]] std::size_t sequence_length() const { return 1; }
  [[nodiscard]] std::size_t width() const { return 6; }
  [[nodiscard]] std::size_t target_width() const { return 2; }
  void inputs(std::size_t sample, std::span<double> out) const {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<double>((7 * sample + 5 * i) % 19) / 9 - 1;
  }
  void targets(std::size_t sample, std::span<double> out) const {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<double>((sample + 3 * i) % 7) / 5;
  }
};

constexpr adamw_bfloat16 rounded{.learning_rate = 0.02, .weight_decay = 0.1};

struct run_settings {
  std::uint64_t seed = 3;
  double average = 0;
  bool replay = false;
  states const* from = nullptr;
};

/// Trains some steps, from a state if one is given, and returns the state.
template <class Job, class Optimizer>
states train(Optimizer const& optimizer, int data_ranks, int steps, run_settings const& with = {}) {
  states out;
  std::mutex lock;
  launch<Job>(threads{.data_ranks = data_ranks}, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(
        rank, optimizer, {.seed = with.seed, .average = with.average, .replay = with.replay});
    auto all = batches(samples{}, global_batch<24>{}, rank, {.epochs = 0});
    if (with.from != nullptr)
      whole_states::load<typename Job::parameter_element>(*trainer.state(), *with.from);
    for (int i = 0; i < steps; ++i) trainer.step(all.at(std::uint64_t(trainer.step_number())));
    auto const state = trainer.state();
    whole_states::save(*state, out, lock);
    workload const load{.rows = all.rows(),
                        .microbatches = all.microbatches(),
                        .data_ranks = data_ranks,
                        .optimizer_states = Optimizer::states,
                        .state_bytes = state_bytes_of<Optimizer>(),
                        .averages = with.average > 0};
    if (steps > 0) plait_test::expect_planned_memory<Job>(rank.stage(), trainer.allocated(), load);
    std::size_t bytes = 0;
    for (std::size_t kind = 0; kind < state->kinds().size(); ++kind)
      bytes += state->count() * state->element_bytes(kind);
    EXPECT_EQ(bytes, Job::plan_type::host_bytes(rank.stage(), load));
  });
  return out;
}

using runner = std::function<states(int, run_settings const&)>;
template <class Policy, class Element = double>
runner run_of(int data_ranks) {
  return [=](int steps, run_settings const& with) {
    return train<job<Policy, Element>>(rounded, data_ranks, steps, with);
  };
}
std::vector<std::pair<std::string, runner>> all_plans() {
  return {{"serial", run_of<any_ranks>(1)},     {"dp2", run_of<any_ranks>(2)},
          {"dp4", run_of<any_ranks>(4)},        {"dp2 zero1", run_of<sharded<1>>(2)},
          {"dp4 zero1", run_of<sharded<1>>(4)}, {"dp2 zero2", run_of<sharded<2>>(2)},
          {"dp4 zero3", run_of<sharded<3>>(4)}, {"tp2", run_of<tp2>(0)},
          {"pp2", run_of<pipeline<2>>(1)},      {"pp2 dp2 zero1 tp2", run_of<three_axes>(2)}};
}

bool is_state(std::string const& name) { return name.find(".exp_avg") != std::string::npos; }

/// Checks that two runs have the same bits in all states. The parameters, in double, are equal to
/// rounding: plans add up gradients in different orders.
void expect_equal(states const& got, states const& expected, std::string const& plan) {
  ASSERT_EQ(got.tensors.size(), expected.tensors.size()) << plan;
  for (auto const& [name, values] : expected.tensors) {
    auto const& others = got.tensors.at(name);
    ASSERT_EQ(others.size(), values.size()) << plan << " " << name;
    for (std::size_t i = 0; i < values.size(); ++i)
      if (is_state(name)) EXPECT_EQ(others[i], values[i]) << plan << " " << name << " " << i;
      else EXPECT_NEAR(others[i], values[i], 1e-12) << plan << " " << name << " " << i;
  }
}

// In double, gradients of different plans differ so little that they round to the same float.
TEST(AdamwBfloat16, HasTheSameBitsUnderEveryPlan) {
  auto const plans = all_plans();
  auto const expected = plans[0].second(7, {});
  for (auto const& [name, run] : plans) expect_equal(run(7, {}), expected, name);
  // Each state is a bfloat16, and most of them are not zero.
  std::size_t count = 0, other = 0;
  for (auto const& [name, values] : expected.tensors)
    if (is_state(name))
      for (double const value : values) {
        EXPECT_EQ(static_cast<double>(plait::bfloat16(value)), value);
        ++count;
        other += value != 0;
      }
  EXPECT_EQ(count, 2u * (6 * 12 + 12 + 24 + 12 * 20 + 20 + 20 * 12 + 12 + 12 * 2 + 2));
  EXPECT_GT(other, count * 9 / 10);
}

TEST(AdamwBfloat16, ContinuesUnderAnotherPlan) {
  auto const plans = all_plans();
  auto const expected = plans[0].second(6, {});
  for (std::size_t a = 0; a < plans.size(); ++a) {
    auto const half = plans[a].second(3, {});
    auto const& [name, run] = plans[(a + 3) % plans.size()];
    auto const loaded = run(0, {.from = &half});
    EXPECT_EQ(loaded.tensors, half.tensors) << name;  // a state that is saved again has equal bits
    expect_equal(run(3, {.from = &half}), expected, plans[a].first + " to " + name);
  }
}

TEST(AdamwBfloat16, DependsOnTheSeedAndKeepsRecordedStepsAndAverages) {
  auto const run = run_of<any_ranks>(2);
  auto const expected = run(4, {});
  EXPECT_EQ(run(4, {.replay = true}).tensors, expected.tensors);
  auto const averaged = run(4, {.average = 0.9});
  for (auto const& [name, values] : expected.tensors) EXPECT_EQ(averaged.tensors.at(name), values);
  EXPECT_TRUE(averaged.tensors.contains("up.weight.average"));
  EXPECT_NE(run(4, {.seed = 4}).tensors.at("up.weight.exp_avg"),
            expected.tensors.at("up.weight.exp_avg"));
}

// States of AdamW are read rounded to nearest, and states in bfloat16 are read without a loss.
TEST(AdamwBfloat16, ExchangesStatesWithAdamw) {
  using here = job<any_ranks>;
  constexpr adamw wide{.learning_rate = 0.02, .weight_decay = 0.1};
  auto const of_wide = train<here>(wide, 2, 3);
  auto const of_rounded = train<here>(rounded, 2, 3);
  EXPECT_EQ(train<here>(wide, 1, 0, {.from = &of_rounded}).tensors, of_rounded.tensors);
  for (auto const& [name, values] : train<here>(rounded, 1, 0, {.from = &of_wide}).tensors)
    for (std::size_t i = 0; i < values.size(); ++i) {
      double const from = of_wide.tensors.at(name)[i];
      EXPECT_EQ(values[i], is_state(name) ? static_cast<double>(plait::bfloat16(from)) : from);
    }
}

// example-begin memory
constexpr workload load{.rows = 24, .optimizer_states = 2};
constexpr workload compact{.rows = 24, .optimizer_states = 2, .state_bytes = 2};
using float_job = job<data_parallel<2>, float>;
static_assert(2 * float_job::plan().memory(0, compact).optimizer ==
              float_job::plan().memory(0, load).optimizer);
static_assert(float_job::plan().bytes_per_rank<adamw_bfloat16>(load) <
              float_job::plan().bytes_per_rank<adamw>(load));
// example-end
template <class Policy>
constexpr bool is_half = 2 * job<Policy, float>::plan().memory(0, compact).optimizer ==
                             job<Policy, float>::plan().memory(0, load).optimizer &&
                         4 * job<Policy>::plan().memory(0, compact).optimizer ==
                             job<Policy>::plan().memory(0, load).optimizer &&
                         job<Policy, float>::plan().memory(0, compact).parameters ==
                             job<Policy, float>::plan().memory(0, load).parameters;
static_assert(is_half<serial> && is_half<data_parallel<2, zero<1>>> &&
              is_half<hybrid<pipeline<2>, tp2>>);

// A model of bytes on the text of other tests.
using text_net = objective<
    sequential<nn::embedding<256, 16>, nn::linear<16, 16>, nn::gelu<16>, nn::linear<16, 256>>,
    nn::cross_entropy<256>>;
struct text_job : parallel<text_net, data_parallel<2>> {};

template <class Optimizer>
std::vector<double> losses_of(Optimizer const& optimizer) {
  std::vector<double> losses;
  auto const text = small_gpt::text();
  launch<text_job>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<text_job>(rank, optimizer, {.seed = 1});
    auto all = batches(text, global_batch<8>{}, rank, {.epochs = 0});
    for (std::uint64_t i = 0; i < 300; ++i) {
      double const loss = trainer.step(all.at(i)).loss;
      if (rank.is_root()) losses.push_back(loss);
    }
  });
  return losses;
}

TEST(AdamwBfloat16, LearnsAText) {
  // example-begin optimizer
  plait::ext::adamw_bfloat16 const in_half{.learning_rate = 3e-3, .weight_decay = 0.1};
  // example-end
  auto const of_wide = losses_of(in_half.with_wide_states());
  auto const of_rounded = losses_of(in_half);
  std::printf("loss of step 0: %.4f; of step 299: %.4f with states in float, %.4f in bfloat16\n",
              of_wide.front(), of_wide.back(), of_rounded.back());
  EXPECT_EQ(of_rounded.front(), of_wide.front());
  EXPECT_NE(of_rounded.back(), of_wide.back());
  for (double const loss : of_rounded) ASSERT_TRUE(std::isfinite(loss));
  EXPECT_LT(of_rounded.back(), of_rounded.front() / 2);
}

// ---- One update ---------------------------------------------------------------------------------

/// The operands of an update of `count` elements that are all in one whole parameter.
template <class T>
struct one_parameter {
  explicit one_parameter(std::size_t size)
      : count(size),
        parameters(size, T{1}),
        gradients(size),
        stored(2 * size, plait::bfloat16(0.0f)),
        range{0, size, 1, 1},
        origin{.count = size, .piece = size, .stride = size, .number = 5} {}

  void update(adamw_bfloat16 const& by, std::int64_t age) {
    step = static_cast<std::uint32_t>(age);
    auto const now = by.numbers_of(age, 1.0);
    by.update(device.on(stream::compute),
              rounded_arena<T, T, T>{{parameters.data(), gradients.data(), stored.data(), nullptr,
                                      count, count, &range, 1, &scale},
                                     &origin,
                                     1,
                                     seed,
                                     &step},
              &now);
  }
  /// Returns the mean of a state over all elements.
  [[nodiscard]] double mean(std::size_t state) const {
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += stored[state * count + i];
    return sum / static_cast<double>(count);
  }

  std::size_t count;
  std::vector<T> parameters, gradients;
  std::vector<plait::bfloat16> stored;
  update_range range;
  element_origin origin;
  double scale = 1;
  std::uint64_t seed = 1;
  std::uint32_t step = 0;
  host_device device{};
};

template <class T>
void expect_formula() {
  constexpr std::size_t count = 2500;  // several of the blocks in which the host updates
  one_parameter<T> got(count);
  adamw_bfloat16 const by{.learning_rate = 0.02, .weight_decay = 0.1};
  std::size_t different = 0;
  for (int age = 0; age < 5; ++age) {
    auto const before = got.stored;
    auto const parameters = got.parameters;
    for (std::size_t i = 0; i < count; ++i)
      got.gradients[i] = static_cast<T>(std::sin(1.7 * age + 0.9 * double(i)));
    got.update(by, age);
    for (std::size_t i = 0; i < count; ++i) {
      double const g = got.gradients[i], t = age + 1;
      double const m = 0.9 * before[i] + 0.1 * g;
      double const v = 0.999 * before[count + i] + 0.001 * g * g;
      // The parameter moves by the states before they are rounded.
      double expected = double(parameters[i]) * (1 - 0.02 * 0.1);
      expected -=
          0.02 * (m / (1 - std::pow(0.9, t))) / (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8);
      EXPECT_NEAR(got.parameters[i], expected, sizeof(T) == 8 ? 1e-13 : 1e-6) << i;
      // A state is one of the two bfloat16 numbers next to the exact state.
      EXPECT_LE(std::abs(got.stored[i] - m), std::abs(m) / 128 + 1e-7) << i;
      EXPECT_LE(std::abs(got.stored[count + i] - v), v / 128 + 1e-10) << i;
      different += got.stored[i] != plait::bfloat16(m);
    }
  }
  // Rounding to nearest would give another result for about a quarter of all elements.
  EXPECT_GT(different, 5 * count / 5);
  EXPECT_LT(different, 5 * count / 3);
}

TEST(AdamwBfloat16, IsTheFormulaUpToTheRoundingOfStates) {
  expect_formula<double>();
  expect_formula<float>();
}

// With beta2 = 0.999, v changes by a thousandth of the difference to g^2. That is less than half of
// the distance between bfloat16 numbers, so rounding to nearest would leave v where it is.
TEST(AdamwBfloat16, FollowsChangesThatRoundingToNearestWouldLose) {
  constexpr std::size_t count = 4000;
  one_parameter<float> got(count);
  adamw_bfloat16 const by{};
  double m = 0, v = 0, nearest = 0;
  for (int age = 0; age < 1000; ++age) {
    for (auto& g : got.gradients) g = 1;
    got.update(by, age);
    m += 0.1 * (1 - m);
    v += 0.001 * (1 - v);
    nearest = plait::bfloat16(nearest + 0.001 * (1 - nearest));
  }
  EXPECT_NEAR(v, 1 - std::exp(-1), 1e-3);
  EXPECT_NEAR(nearest, 0.25, 0.002);
  // The standard deviation of one state is below 0.03, and of the mean of 4000 below 0.0005.
  EXPECT_NEAR(got.mean(1), v, 0.0025);
  EXPECT_NEAR(got.mean(0), m, 0.0025);
}

TEST(AdamwBfloat16, DrawsOtherNumbersForEachElementStepParameterAndSeed) {
  constexpr std::size_t count = 4096;
  auto const stored = [&](auto change) {
    one_parameter<float> one(count);
    for (auto& g : one.gradients) g = 1.003f;
    change(one);
    one.update({}, one.step);
    return std::vector<float>(one.stored.begin(), one.stored.end());
  };
  auto const first = stored([](auto&) {});
  EXPECT_EQ(stored([](auto&) {}), first);
  auto const differs = [&](std::vector<float> const& other) {
    std::size_t differences = 0;
    for (std::size_t i = 0; i < count; ++i) differences += other[i] != first[i];
    return differences > count / 8 && differences < count * 7 / 8;
  };
  EXPECT_TRUE(differs(stored([](auto& one) { one.seed = 2; })));
  EXPECT_TRUE(differs(stored([](auto& one) { one.origin.number = 6; })));
  EXPECT_TRUE(differs(stored([](auto& one) { one.origin.begin = 1; })));
  std::size_t lower = 0;
  for (std::size_t i = 0; i < count; ++i) lower += first[i] < 0.1003f;
  EXPECT_GT(lower, count / 16);
  EXPECT_LT(lower, count * 15 / 16);
}

TEST(AdamwBfloat16, ChangesNothingInAStepThatIsNotTaken) {
  one_parameter<float> one(100);
  for (auto& g : one.gradients) g = 1;
  one.update({}, 0);
  auto const parameters = one.parameters;
  std::vector<float> const states(one.stored.begin(), one.stored.end());
  one.scale = std::numeric_limits<double>::quiet_NaN();
  one.update({}, 1);
  EXPECT_EQ(one.parameters, parameters);
  EXPECT_EQ(std::vector<float>(one.stored.begin(), one.stored.end()), states);
}

// ---- Settings, and wrong use --------------------------------------------------------------------

TEST(AdamwBfloat16, HasTheSettingsOfAdamw) {
  auto const with = adamw{}.settings();
  auto const got = adamw_bfloat16{}.settings();
  for (std::size_t i = 0; i < with.size(); ++i) {
    EXPECT_STREQ(got[i].name, with[i].name);
    EXPECT_EQ(got[i].value, with[i].value);
  }
  EXPECT_EQ(adamw_bfloat16{}.decays, adamw{}.decays);
}

std::string error_of(auto const& optimizer_on) {
  try {
    launch<float_job>(threads{}, [&](auto& rank) { optimizer_on(rank); });
  } catch (input_error const& e) {
    return e.what();
  }
  return "";
}

TEST(AdamwBfloat16, RefusesWrongSettings) {
  // Both ranks refuse the setting; the rank that refuses it first writes the text.
  auto const text =
      error_of([](auto& rank) { trainer<float_job>(rank, adamw_bfloat16{.learning_rate = -1}); });
  std::string const said =
      "the optimizer's learning_rate is -1; it must be a finite number from 0 on";
  EXPECT_TRUE(text == "rank 0: " + said || text == "rank 1: " + said) << text;
}

// If one rank keeps its states in float, all ranks get the same sentence.
TEST(AdamwBfloat16, RefusesRanksWithOtherStates) {
  EXPECT_EQ(
      error_of([](auto& rank) {
        if (rank.is_root()) trainer<float_job>(rank, adamw{});
        else trainer<float_job>(rank, adamw_bfloat16{});
      }),
      "trainer 1: the ranks differ in the bytes of an element of the optimizer's states, or 0 "
      "if they have the type of a parameter: 0 on rank 0, 2 on rank 1; make the trainer, and the "
      "batches it trains on, with the same numbers on every rank");
}

}  // namespace
