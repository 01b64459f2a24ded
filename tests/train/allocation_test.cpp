// SPDX-License-Identifier: Apache-2.0
// test: alone
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <span>

#include "testing/count_allocations.hpp"
#include "train/small_gpt.hpp"

namespace {

template <class Policy>
struct StepAllocation : testing::Test {};

using policies =
    testing::Types<plait::serial, plait::data_parallel<2>, small_gpt::tp2, small_gpt::tp2_sharded,
                   plait::pipeline<2>, plait::pipeline<2, plait::gpipe>, small_gpt::three_axes,
                   plait::hybrid<small_gpt::tp2_sharded, plait::recompute<plait::granularity::all>>,
                   plait::data_parallel<2, plait::zero<1>, plait::buckets<1>>,
                   plait::data_parallel<2, plait::zero<2>, plait::buckets<1>>,
                   plait::data_parallel<2, plait::zero<3>, plait::buckets<1>>,
                   plait::data_parallel<4, plait::within<2>, plait::zero<3>, plait::buckets<1>>>;
TYPED_TEST_SUITE(StepAllocation, policies);

TYPED_TEST(StepAllocation, StepsAfterTheFirstAllocateNothingOnAnyRank) {
  using job = small_gpt::job<TypeParam>;
  auto const data = small_gpt::text();
  long made_before = 0, by_first = 0, by_others = 0;
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::adamw{}, {.clip = 1.0});
    auto batches =
        plait::batches(data, plait::global_batch<8>{}, rank, {.epochs = 0, .microbatches = 2});
    auto const count = [&](long& out) {  // counts for all ranks; none of them is in a step
      rank.world().barrier();
      if (rank.is_root()) out = plait_test::allocations.load();
      rank.world().barrier();
    };
    long before = 0, after_first = 0, after_last = 0;
    count(before);
    trainer.step(batches.at(0));
    count(after_first);
    for (std::uint64_t step = 1; step < 5; ++step) trainer.step(batches.at(step));
    count(after_last);
    if (!rank.is_root()) return;
    made_before = before;
    by_first = after_first - before;
    by_others = after_last - after_first;
  });
  EXPECT_GT(made_before, 0);
  EXPECT_GT(by_first, 0);  // the counter includes the workspace
  EXPECT_EQ(by_others, 0);
}

/// Pictures of 1 x 8 x 8, each with a class.
struct pictures {
  using concept_tag = plait::dataset_tag;
  using element = float;
  [[nodiscard]] std::size_t size() const { return 64; }
  [[nodiscard]] std::size_t sequence_length() const { return 1; }
  [[nodiscard]] std::size_t width() const { return 64; }
  [[nodiscard]] plait::picture_shape picture_shape() const { return {1, 8, 8}; }
  void inputs(std::size_t sample, std::span<float> out) const {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = float((sample + i * i) % 7);
  }
  void targets(std::size_t sample, std::span<std::int32_t> out) const {
    out[0] = std::int32_t(sample % 4);
  }
};

TEST(ReadAhead, AllocatesNothingInAStepOnAnyThread) {
  using model =
      plait::objective<plait::sequential<plait::nn::linear<64, 4>>, plait::nn::cross_entropy<4>>;
  using job = plait::parallel<model, plait::data_parallel<2>>;
  auto const data = pictures{} | plait::resize(10) | plait::random_crop<8, 8>(1) |
                    plait::random_flip() | plait::normalize(3, 2);
  for (int const ahead : {0, 2}) {
    long by_steps = -1;
    plait::launch<job>(plait::threads{}, [&](auto& rank) {
      auto trainer = plait::trainer<job>(rank, plait::adamw{});
      auto all = plait::batches(data, plait::global_batch<8>{}, rank,
                                {.epochs = 0, .ahead = ahead, .readers = ahead > 0 ? 2 : 1});
      trainer.step(all.at(0));
      rank.world().barrier();
      long const before = plait_test::allocations.load();
      rank.world().barrier();
      for (std::uint64_t step = 1; step < 12; ++step) trainer.step(all.at(step));
      rank.world().barrier();
      long const behind = plait_test::allocations.load();
      rank.world().barrier();
      if (rank.is_root()) by_steps = behind - before;
    });
    EXPECT_EQ(by_steps, 0) << ahead;
  }
}

}  // namespace
