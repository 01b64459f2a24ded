// SPDX-License-Identifier: Apache-2.0
// Activations in bfloat16, weights and sums of gradients in float.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "plait/core/precision.hpp"
#include "train/small_gpt.hpp"

namespace {

using mixed = plait::precision<plait::bfloat16, float>;

struct outcome {
  std::vector<double> losses;
  std::vector<double> weights;
};

constexpr int steps = 20;
constexpr std::size_t batch = 8;

template <class Policy, class Element>
outcome train() {
  using job = small_gpt::job<Policy, Element>;
  using plan = typename job::plan_type;
  auto const data = small_gpt::text();
  outcome out;
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::adamw{.learning_rate = 3e-3}, {.clip = 1.0});
    auto batches =
        plait::batches(data, plait::global_batch<>{batch}, rank,
                       {.how = plait::order::sequential, .epochs = 0, .microbatches = 2});
    for (std::uint64_t step = 0; step < steps; ++step) {
      auto const loss = trainer.step(batches.at(step)).loss;
      if (rank.is_root()) out.losses.push_back(loss);
    }
    auto const samples = batch / std::size_t(rank.grid().size(plait::axis::data));
    auto planned = plan::memory(rank.place().stage,
                                {.rows = samples / 2 * small_gpt::length, .microbatches = 2});
    planned.batches = 0;
    EXPECT_EQ(trainer.allocated().total(), planned.total());
    trainer.export_parameters([&](std::string const&, auto const&, auto values) {
      static_assert(!std::is_same_v<typename decltype(values)::value_type, plait::bfloat16>);
      out.weights.insert(out.weights.end(), values.begin(), values.end());
    });
  });
  return out;
}

outcome const& in_float() {
  static outcome const out = train<plait::serial, float>();
  return out;
}

template <class Policy>
class Precision : public ::testing::Test {};

using policies =
    ::testing::Types<plait::serial, plait::data_parallel<2>, small_gpt::tp2, plait::pipeline<2>,
                     small_gpt::three_axes, small_gpt::three_axes_sharded>;
TYPED_TEST_SUITE(Precision, policies);

TYPED_TEST(Precision, Bfloat16StaysCloseToFloat) {
  auto const got = train<TypeParam, mixed>();
  ASSERT_EQ(got.losses.size(), std::size_t(steps));
  double difference = 0;
  for (std::size_t i = 0; i < got.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], in_float().losses[i], 2e-2 * in_float().losses[i]) << i;
    difference += std::abs(got.losses[i] - in_float().losses[i]);
  }
  EXPECT_GT(difference, 0) << "nothing was computed in bfloat16";
  EXPECT_LT(got.losses.back(), 0.9 * got.losses.front());
}

// A weight near 1 changes by 1e-3 a step; in bfloat16 it could not.
TYPED_TEST(Precision, WeightsAreKeptInFloat) {
  auto const got = train<TypeParam, mixed>();
  std::size_t finer = 0;
  for (double const weight : got.weights)
    finer += static_cast<float>(plait::bfloat16(static_cast<float>(weight))) !=
             static_cast<float>(weight);
  EXPECT_GT(finer, got.weights.size() / 2);
}

using plan_of_mixed = small_gpt::job<plait::serial, mixed>::plan_type;
using plan_of_float = small_gpt::job<plait::serial, float>::plan_type;
constexpr plait::workload load{.rows = 64};

// Weights in float and again in bfloat16; gradients and two moments in float.
static_assert(plan_of_mixed::memory(0, load).parameters ==
              plan_of_float::memory(0, load).parameters * 3 / 2);
static_assert(plan_of_mixed::memory(0, load).gradients == plan_of_float::memory(0, load).gradients);
static_assert(plan_of_mixed::memory(0, load).activations <
              plan_of_float::memory(0, load).activations * 2 / 3);

// On the tensor axis half the bytes move, on the data axis as many.
using tensor_mixed = small_gpt::job<small_gpt::tp2, mixed>::plan_type;
using tensor_float = small_gpt::job<small_gpt::tp2, float>::plan_type;
static_assert(tensor_mixed::wire(plait::axis::tensor, load).backward * 2 ==
              tensor_float::wire(plait::axis::tensor, load).backward);
using data_mixed = small_gpt::job<plait::data_parallel<2>, mixed>::plan_type;
using data_float = small_gpt::job<plait::data_parallel<2>, float>::plan_type;
static_assert(data_mixed::wire(plait::axis::data, load).step ==
              data_float::wire(plait::axis::data, load).step);

}  // namespace
