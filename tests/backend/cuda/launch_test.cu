// SPDX-License-Identifier: Apache-2.0
// test: timeout=900 seconds=40
//
// Runs jobs on GPUs and on the processor, in double, and compares losses and weights to rounding.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <map>
#include <string>
#include <vector>

#include "backend/cuda/cuda_testing.hpp"
#include "plait/backend/cuda/cuda_process.hpp"
#include "train/small_gpt.hpp"

namespace {

using namespace cuda_testing;

struct outcome {
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<double> evaluated;  ///< the evaluation after each step, if it was asked for
  std::map<std::string, std::vector<double>> weights;
};

template <class Policy, class Backend>
outcome train(Backend const& backend, bool evaluates = false) {
  using job = small_gpt::job<Policy>;
  auto const data = small_gpt::text();
  outcome out;
  plait::launch<job>(backend, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::adamw{.learning_rate = 0.01},
                                       {.seed = 7, .clip = 0.5, .replay = records(backend)});
    auto batches = plait::batches(data, plait::global_batch<8>{}, rank,
                                  {.seed = 3, .epochs = 0, .microbatches = 2});
    for (std::uint64_t step = 0; step < 3; ++step) {
      auto const report = trainer.step(batches.at(step));
      double const evaluated = evaluates ? trainer.evaluate(batches.at(0)) : 0;
      if (!rank.is_root()) continue;
      out.evaluated.push_back(evaluated);
      out.losses.push_back(report.loss);
      out.norms.push_back(report.gradient_norm);
    }
    trainer.export_parameters(
        [&](std::string const& name, auto const&, std::span<double const> values) {
          out.weights[name].assign(values.begin(), values.end());
        });
  });
  return out;
}

void expect_near(std::vector<double> const& got, std::vector<double> const& expected,
                 double tolerance, std::string const& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], tolerance) << what << " at " << i;
}

outcome const& serial() {
  static outcome const once = train<plait::serial>(plait::threads{});
  return once;
}

// Three steps of Adam divide by the square root of small squares, which multiplies rounding errors
// of 1e-16 by up to 1e5.
void expect_serial(outcome const& got) {
  ASSERT_GT(serial().losses.front(), serial().losses.back());
  expect_near(got.losses, serial().losses, 1e-9, "loss");
  expect_near(got.norms, serial().norms, 1e-9, "norm");
  ASSERT_EQ(got.weights.size(), serial().weights.size());
  for (auto const& [name, values] : serial().weights)
    expect_near(got.weights.at(name), values, 1e-8, name);
}

TEST(CudaLaunch, SerialOnOneGpu) { expect_serial(train<plait::serial>(plait::cuda{})); }

TEST(CudaLaunch, RecordedStepsAreTheSame) {
  expect_serial(train<plait::serial>(plait::cuda{.options = {.graphs = true}}));
}

#if !defined(__CUDACC__)
// Runs each rank as the only rank of a process.
struct pretended_processes {
  plait::cuda_options options{};
  int data_ranks = 0;
  bool meet = true;  ///< ranks find each other through a file

  using concept_tag = plait::ext::backend_tag;
  using rank_type = plait::ext::cuda_rank;

  template <class Program>
  void run(plait::ext::mesh_groups const& groups, Program&& program) const {
    auto const& grid = groups.grid();
    static int jobs = 0;
    auto const rendezvous =
        std::filesystem::temp_directory_path() /
        ("plait_pretended_" + std::to_string(::getpid()) + "_" + std::to_string(jobs++));
    std::vector<std::future<void>> ranks;
    for (int rank = 0; rank < grid.world_size(); ++rank)
      ranks.push_back(std::async(std::launch::async, [&, rank] {
        plait::cuda_process{.ranks = plait::ext::process_ranks{rank, grid.world_size(), rank},
                            .rendezvous = meet ? rendezvous : std::filesystem::path{},
                            .options = options}
            .run(groups, program);
      }));
    for (auto& each : ranks) each.wait();
    for (auto& each : ranks) each.get();
  }
};

template <class Policy>
struct RecordedPlans : testing::Test {};
using recorded_plans =
    testing::Types<plait::data_parallel<2>, plait::pipeline<2>, small_gpt::tp2,
                   small_gpt::tp2_sharded, small_gpt::three_axes,
                   plait::pipeline<3, plait::interleaved<2>>,
                   plait::hybrid<plait::pipeline<2, plait::interleaved<2>>, small_gpt::tp2>>;
TYPED_TEST_SUITE(RecordedPlans, recorded_plans);

TYPED_TEST(RecordedPlans, AreTheSame) {
  expect_serial(train<TypeParam>(pretended_processes{{.graphs = true}}));
}

// The host decides which rank gathers which parameters; a recorded step has these decisions from
// its recording.
template <class Policy>
struct RecordedLevels : testing::Test {};
using recorded_levels =
    testing::Types<plait::data_parallel<2, plait::zero<2>, plait::buckets<1>>,
                   plait::data_parallel<2, plait::zero<3>, plait::buckets<1>>,
                   plait::data_parallel<4, plait::within<2>, plait::zero<3>, plait::buckets<1>>>;
TYPED_TEST_SUITE(RecordedLevels, recorded_levels);

TYPED_TEST(RecordedLevels, HaveTheBitsOfTheOthers) {
  auto const others = train<TypeParam>(pretended_processes{}, true);
  auto const recorded = train<TypeParam>(pretended_processes{{.graphs = true}}, true);
  expect_serial(recorded);
  EXPECT_EQ(recorded.losses, others.losses);
  EXPECT_EQ(recorded.evaluated, others.evaluated);
  EXPECT_LT(recorded.evaluated[2], recorded.evaluated[0]);
  EXPECT_EQ(recorded.norms, others.norms);
  EXPECT_EQ(recorded.weights, others.weights);
}

TEST(CudaLaunch, ProcessesNeedNoFileWhereNcclKnowsTheAddress) {
  ASSERT_EQ(::setenv("NCCL_COMM_ID", "127.0.0.1:23456", 1), 0);
  expect_serial(train<plait::data_parallel<2>>(pretended_processes{{}, 0, false}));
  ::unsetenv("NCCL_COMM_ID");
  EXPECT_THROW(train<plait::data_parallel<2>>(pretended_processes{{}, 0, false}),
               plait::input_error);
}

TEST(CudaLaunch, AProcessUsesNoGpuButItsOwn) {
  auto& all = pretended::machine::get();
  all.devices_set = 0;
  std::async(std::launch::async, [] {
    plait::cuda_process{.ranks = plait::ext::process_ranks{0, 1, 3}}.run(line(1), [](auto& rank) {
      on_device<float> const x(rank.device(), {1});
      EXPECT_EQ(x.get(), std::vector<float>{1});
    });
  }).get();
  EXPECT_EQ(all.devices_set, 1u << 3);
}

// NCCL's abort waits until no graph has its calls.
TEST(CudaLaunch, ARankWithARecordedStepEndsWhenAnotherHasLeft) {
  using job = small_gpt::job<plait::data_parallel<2>>;
  auto const data = small_gpt::text();
  pretended_processes const backend{{.timeout = std::chrono::milliseconds{2000}, .graphs = true}};
  EXPECT_THROW(plait::launch<job>(backend,
                                  [&](auto& rank) {
                                    auto trainer =
                                        plait::trainer<job>(rank, plait::adamw{}, {.replay = true});
                                    auto batches = plait::batches(data, plait::global_batch<8>{},
                                                                  rank, {.epochs = 0});
                                    for (std::uint64_t step = 0; step < 4; ++step) {
                                      if (step == 3 && !rank.is_root()) return;
                                      trainer.step(batches.at(step));
                                    }
                                  }),
               plait::communication_timeout);
  EXPECT_FALSE(plait::detail::gpu_is_stuck);
}
#endif

TEST(CudaLaunch, ThreeAxesOnOneGpu) {
  expect_serial(train<small_gpt::three_axes>(plait::cuda{.share_one_gpu = true}));
}

// Plans with other collectives than all_reduce, on ranks that exchange data in the memory of one
// GPU.
template <class Policy>
struct PlansOnOneGpu : testing::Test {};
using plans_on_one_gpu =
    testing::Types<plait::hybrid<plait::data_parallel<2, plait::zero<1>>,
                                 plait::recompute<plait::granularity::all>>,
                   plait::data_parallel<2, plait::zero<2>, plait::buckets<1>>,
                   plait::data_parallel<2, plait::zero<3>, plait::buckets<1>>,
                   small_gpt::tp2_sharded, plait::pipeline<3, plait::interleaved<2>>>;
TYPED_TEST_SUITE(PlansOnOneGpu, plans_on_one_gpu);

TYPED_TEST(PlansOnOneGpu, AreTheSame) {
  expect_serial(train<TypeParam>(plait::cuda{.share_one_gpu = true}));
}

TEST(CudaLaunch, ThreeAxesOnGpusOfTheirOwn) {
  if (gpus() < 8) GTEST_SKIP() << "needs eight GPUs, there are " << gpus();
  expect_serial(train<small_gpt::three_axes>(plait::cuda{}));
}

// Checks memory of the device only; other tests check the memory of a training step on the host.
TEST(CudaLaunch, AStepTakesNoMemoryAfterTheFirst) {
  using job = small_gpt::job<small_gpt::tp2>;
  auto const data = small_gpt::text();
  plait::launch<job>(plait::cuda{.share_one_gpu = true}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::adamw{}, {.clip = 0.5});
    auto batches = plait::batches(data, plait::global_batch<1>{}, rank, {.epochs = 0});
    auto const free_bytes = [&rank] {
      rank.world().barrier();
      std::size_t free = 0, total = 0;
      EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
      rank.world().barrier();
      return free;
    };
    trainer.step(batches.at(0));
    auto const after_first = free_bytes();
    for (std::uint64_t step = 1; step < 3; ++step) trainer.step(batches.at(step));
    // The driver may load modules at any time; memory that each step takes would grow with every
    // step.
    EXPECT_GE(free_bytes() + (std::size_t{64} << 20), after_first);
    // The number of free bytes does change, but not with every small allocation, as the driver
    // takes memory in blocks.
    void* more = nullptr;
    ASSERT_EQ(cudaMalloc(&more, std::size_t{256} << 20), cudaSuccess);
    EXPECT_LT(free_bytes() + (std::size_t{128} << 20), after_first);
    EXPECT_EQ(cudaFree(more), cudaSuccess);
  });
}

TEST(CudaLaunch, MoreRanksThanGpusNamesTheSwitch) {
  auto const text = message_of<plait::cuda_error>(
      [] { plait::cuda{}.run(line(gpus() + 1), [](auto&) { ADD_FAILURE() << "a rank ran"; }); });
  expect_text(text, "job has " + std::to_string(gpus() + 1) + " ranks");
  expect_text(text, ".share_one_gpu = true");
}

}  // namespace
