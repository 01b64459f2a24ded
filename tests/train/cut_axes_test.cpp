// SPDX-License-Identifier: Apache-2.0
// test: timeout=300 seconds=5
//
// Optimizers that own blocks along two axes train as one rank does, with the calls of the list, in
// both orders of the axes and with any other axes around and between them.
#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "plan/expected_calls.hpp"
#include "train/expect_planned.hpp"
#include "train/small_gpt.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using planning::job_part;

using tensors = std::map<std::string, std::vector<double>>;
struct outcome {
  std::vector<double> losses, norms;
  tensors start, gradients, weights;
};

constexpr std::size_t batch = 12;
constexpr int steps = 3;

template <class Job>
outcome train(int at_launch_ranks = 0) {
  using plan = typename Job::plan_type;
  auto const text = small_gpt::text();
  outcome out;
  launch<Job>(
      threads{.data_ranks =
                  plan::grid.is_complete() ? 0 : at_launch_ranks * plan::grid.known_batch_ranks()},
      [&](auto& rank) {
        auto trainer = plait::trainer<Job>(rank, adamw{.learning_rate = 0.02}, {.clip = 0.05});
        auto const into = []<class T>(T, tensors& to) {
          return [&to](std::string const& name, parameter_info const&, std::span<T const> values) {
            to[name].assign(values.begin(), values.end());
          };
        };
        trainer.export_parameters(into(typename Job::parameter_element{}, out.start));
        auto all = batches(text, global_batch<batch>{}, rank, {.epochs = 0, .microbatches = 2});
        trainer.evaluate(all.at(0));  // data that is sent once has been sent
        std::vector<plait::detail::logged_call> log;
        for (auto const over : rank.groups().sets()) {
          rank.group(over).reset_counted();
          rank.group(over).log_calls(&log, static_cast<int>(over.bits));
        }
        for (int step = 0; step < steps; ++step) {
          auto const& now = all.at(std::uint64_t(step));
          auto const report = trainer.step(now);
          if (rank.is_root()) {
            out.losses.push_back(report.loss);
            out.norms.push_back(report.gradient_norm);
          }
          if (step > 0) continue;
          workload const load{.rows = now.rows(),
                              .microbatches = now.microbatches,
                              .data_ranks = plan::grid.ranks_at_launch(rank.grid()),
                              .gradient_norm = true};
          plait_test::expect_planned_bytes<Job>(rank, load);
          EXPECT_EQ(expected_calls::expansion<Job>(rank.grid(), rank.coordinates(), load,
                                                   job_part::training)
                        .lines(),
                    expected_calls::lines_of(log))
              << "on rank " << rank.world_rank();
        }
        for (auto const over : rank.groups().sets()) rank.group(over).log_calls(nullptr, 0);
        trainer.export_gradients(into(typename Job::gradient_element{}, out.gradients));
        trainer.export_parameters(into(typename Job::parameter_element{}, out.weights));
      });
  return out;
}

void expect_near(std::vector<double> const& expected, std::vector<double> const& got,
                 std::string const& of, double rounding = 1e-10) {
  ASSERT_EQ(expected.size(), got.size()) << of;
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(expected[i], got[i], rounding) << of << " at " << i;
}
void expect_near(tensors const& expected, tensors const& got) {
  ASSERT_EQ(expected.size(), got.size());
  for (auto const& [name, values] : expected) expect_near(values, got.at(name), name);
}

template <class Policy>
struct CutAxes : ::testing::Test {};
using data_ranks = data_parallel<2, zero<1>>;
using data_at_launch = data_parallel<at_launch, zero<1>>;
using replicas = small_gpt::sharded_replicas<3>;
using policies = ::testing::Types<hybrid<replicas, data_ranks>, hybrid<data_ranks, replicas>,
                                  hybrid<replicas, data_at_launch, small_gpt::tp2_sharded>,
                                  hybrid<data_ranks, small_gpt::tp2, replicas>,
                                  hybrid<pipeline<2>, data_at_launch, replicas>,
                                  hybrid<replicas, pipeline<2>, data_ranks>>;
TYPED_TEST_SUITE(CutAxes, policies);

TYPED_TEST(CutAxes, TrainWhatOneRankTrains) {
  static auto const expected = train<small_gpt::job<serial>>();
  auto const got = train<small_gpt::job<TypeParam>>(2);
  EXPECT_EQ(expected.start, got.start);
  expect_near(expected.losses, got.losses, "loss");
  expect_near(expected.norms, got.norms, "norm of the gradients");
  expect_near(expected.gradients, got.gradients);
  expect_near(expected.weights, got.weights);
}

// Layers compute with bfloat16 copies; each rank holds the float parameters that its optimizer
// owns.
TEST(CutAxesInPrecision, TrainWhatOneRankTrains) {
  using mixed = precision<plait::bfloat16, float>;
  auto const expected = train<small_gpt::job<serial, mixed>>();
  auto const got = train<small_gpt::job<hybrid<data_ranks, replicas>, mixed>>();
  EXPECT_EQ(expected.start, got.start);
  expect_near(expected.losses, got.losses, "loss", 0.02);
}

}  // namespace
