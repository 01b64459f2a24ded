// SPDX-License-Identifier: Apache-2.0
// Parameters that are not trained keep their bits. The others train as if the updates of these had
// been undone.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "plan/expected_calls.hpp"
#include "train/expect_planned.hpp"
#include "train/small_gpt.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using planning::job_part;
using small_gpt::width, small_gpt::length, small_gpt::vocabulary;

using tensors = std::map<std::string, std::vector<double>>;

using block = residual<
    sequential<named<"ln", nn::layer_norm<width>>, named<"c_fc", nn::linear<width, 2 * width>>,
               named<"c_proj", nn::linear<2 * width, width>>>>;
using body = sequential<named<"wte", nn::embedding<vocabulary, width>>,
                        named<"wpe", nn::positions<length, width>>, named<"h", repeat<2, block>>,
                        named<"head", nn::linear<width, vocabulary>>>;
using partly_frozen = frozen<body, "wp*.*", "wte.weight", "h.*.ln.*", "h.*.c_fc.*">;

bool is_frozen(std::string const& name) {
  return name.starts_with("w") || name.find(".ln.") != std::string::npos ||
         name.find(".c_fc.") != std::string::npos;
}

template <class Model, class Policy, class Element = double>
struct job : parallel<objective<Model, nn::cross_entropy<vocabulary>>, Policy, Element> {};
using all_trained = job<body, serial>;
using alone = job<partly_frozen, serial>;

struct outcome {
  std::vector<step_report> reports;
  tensors start, gradients, weights;
};

auto into(tensors& out) {
  return [&out](std::string const& name, auto const&, auto values) {
    out[name].assign(values.begin(), values.end());
  };
}

/// Sets the parameters in `values`, in the type of the job.
void import(auto& trainer, tensors const& values) {
  trainer.import_parameters([&]<class T>(std::string const& name, auto const&, std::span<T> to) {
    if (!values.contains(name)) return false;
    auto const& from = values.at(name);
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<T>(from[i]);
    return true;
  });
}

/// Checks that the calls of a rank since `log` was cleared are the plan's list, with the same
/// bytes.
template <class Job, class Rank>
void expect_called(Rank& rank, std::vector<detail::logged_call>& log, workload const& load,
                   job_part part) {
  EXPECT_EQ((expected_calls::expansion<Job>(rank.grid(), rank.coordinates(), load, part).lines()),
            expected_calls::lines_of(log))
      << "rank " << rank.world_rank();
  log.clear();
  if (part != job_part::training) return;
  plait_test::expect_planned_bytes<Job>(rank, load);
}

/// Trains three steps from `start`, or from the initial weights.
template <class Job>
outcome train(double clip = 0, tensors const& start = {}) {
  auto const data = small_gpt::text();
  outcome out;
  launch<Job>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, sgd{.learning_rate = 0.1, .momentum = 0.9},
                                       {.seed = 7, .clip = clip});
    if (!start.empty()) import(trainer, start);
    trainer.export_parameters(into(out.start));
    auto batches = plait::batches(data, global_batch<8>{}, rank, {.epochs = 0, .microbatches = 2});
    workload const load{.rows = batches.at(0).rows(),
                        .microbatches = 2,
                        .optimizer_states = sgd::states,
                        .gradient_norm = clip > 0};
    std::vector<detail::logged_call> log;
    for (std::uint64_t step = 0; step < 3; ++step) {
      auto const report = trainer.step(batches.at(step));
      if (rank.is_root()) out.reports.push_back(report);
      if constexpr (std::is_same_v<Job, all_trained>) {  // does by hand the work of `frozen`
        tensors undone;  // only frozen parameters are restored, so momentum stays
        for (auto const& [name, values] : out.start)
          if (is_frozen(name)) undone[name] = values;
        import(trainer, undone);
      }
      for (auto const over : rank.groups().sets())
        if (step == 1) {  // data that is sent once has been sent
          rank.group(over).reset_counted();
          rank.group(over).log_calls(&log, static_cast<int>(over.bits));
        }
    }
    plait_test::expect_planned_memory<Job>(rank.stage(), trainer.allocated(), load);
    expect_called<Job>(rank, log, load, job_part::training);
    trainer.export_gradients(into(out.gradients));
    expect_called<Job>(rank, log, load, job_part::export_gradients);
    trainer.evaluate(batches.at(0));  // makes the copies that layers read current
    log.clear();
    trainer.export_parameters(into(out.weights));
    expect_called<Job>(rank, log, load, job_part::export_parameters);
  });
  return out;
}

outcome const& by_hand() {
  static outcome const once = train<all_trained>();
  return once;
}

void expect_near(std::vector<double> const& expected, std::vector<double> const& got,
                 std::string const& name, double rounding = 1e-12) {
  ASSERT_EQ(got.size(), expected.size()) << name;
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], rounding) << name << " at " << i;
}

/// Checks that trained parameters are as in `expected`, and frozen ones unchanged.
void expect_same(outcome const& expected, outcome const& got) {
  for (std::size_t s = 0; s < expected.reports.size(); ++s) {
    EXPECT_NEAR(got.reports[s].loss, expected.reports[s].loss, 1e-12) << s;
    EXPECT_NEAR(got.reports[s].gradient_norm, expected.reports[s].gradient_norm, 1e-12) << s;
  }
  ASSERT_EQ(got.weights.size(), expected.weights.size());
  for (auto const& [name, values] : got.weights) {
    EXPECT_EQ(got.gradients.contains(name), !is_frozen(name)) << name;
    if (is_frozen(name)) {
      EXPECT_EQ(values, got.start.at(name)) << name;
    } else {
      EXPECT_NE(values, got.start.at(name)) << name;
      expect_near(expected.weights.at(name), values, name);
      expect_near(expected.gradients.at(name), got.gradients.at(name), name + " (gradient)");
    }
  }
}

// The first stage of `cut` trains nothing, and receives no gradients.
using cut = pipeline<2, one_forward_one_backward, cut_at<2>>;
using zero_three_axes = hybrid<pipeline<2>, data_parallel<2, zero<1>>, small_gpt::tp2_sharded>;

template <class Policy>
struct Frozen : ::testing::Test {};
using policies =
    ::testing::Types<serial, data_parallel<2>, tensor_parallel<2>, cut, zero_three_axes>;
TYPED_TEST_SUITE(Frozen, policies);

TYPED_TEST(Frozen, IsAsIfTheUpdatesWereUndone) {
  using here = job<partly_frozen, TypeParam>;
  auto const got = train<here>();
  EXPECT_EQ(got.start, by_hand().start);
  expect_same(by_hand(), got);
}

// Starts from weights that were trained elsewhere.
TYPED_TEST(Frozen, IsNotInTheNorm) {
  using here = job<partly_frozen, TypeParam>;
  tensors const& start = by_hand().weights;
  static outcome const expected = train<alone>(0.05, start);
  auto const got = train<here>(0.05, start);
  EXPECT_EQ(got.start, start);
  expect_same(expected, got);
  double squares = 0;
  for (auto const& [name, values] : got.gradients)
    for (double const value : values) squares += value * value;
  EXPECT_NEAR(got.reports.back().gradient_norm, std::sqrt(squares), 1e-12);
}

// Frozen parameters are held only in bfloat16.
TEST(FrozenInBfloat16, IsRoundedOnce) {
  using mixed = job<partly_frozen, data_parallel<2, zero<1>>, precision<plait::bfloat16, float>>;
  auto const got = train<mixed>();
  for (auto const& [name, values] : got.weights) {
    auto const& before = got.start.at(name);
    if (!is_frozen(name)) {
      EXPECT_NE(values, before) << name;
      continue;
    }
    EXPECT_EQ(values, before) << name;
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(values[i], float(plait::bfloat16(float(by_hand().start.at(name)[i])))) << name;
  }
  for (std::size_t s = 0; s < got.reports.size(); ++s)
    EXPECT_NEAR(got.reports[s].loss, by_hand().reports[s].loss, 2e-2) << s;
}

}  // namespace
