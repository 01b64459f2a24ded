// SPDX-License-Identifier: Apache-2.0
// Trains with activations in bfloat16, and weights and sums of gradients in float.
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
                       {.how = plait::sample_order::sequential, .epochs = 0, .microbatches = 2});
    for (std::uint64_t step = 0; step < steps; ++step) {
      auto const loss = trainer.step(batches.at(step)).loss;
      if (rank.is_root()) out.losses.push_back(loss);
    }
    auto const samples = batch / std::size_t(rank.grid().size(plait::axis::data));
    auto planned =
        plan::memory(rank.stage(), {.rows = samples / 2 * small_gpt::length, .microbatches = 2});
    planned.batches = 0;
    auto const allocated = trainer.allocated();
    EXPECT_EQ(allocated.total() - allocated.workspace, planned.total());
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

// A weight near 1 changes by 1e-3 in a step, which bfloat16 could not store.
TYPED_TEST(Precision, WeightsAreKeptInFloat) {
  auto const got = train<TypeParam, mixed>();
  std::size_t finer = 0;
  for (double const weight : got.weights)
    finer += static_cast<float>(plait::bfloat16(static_cast<float>(weight))) !=
             static_cast<float>(weight);
  EXPECT_GT(finer, got.weights.size() / 2);
}

// A job that computes in bfloat16 on features of a data set in float.
template <class Element>
struct classifier
    : plait::parallel<
          plait::objective<plait::sequential<plait::nn::linear<6, 16>, plait::nn::relu<16>,
                                             plait::nn::linear<16, 4>>,
                           plait::nn::cross_entropy<4>>,
          plait::hybrid<plait::data_parallel<2>, plait::tensor_parallel<2>>, Element> {};

template <class Element, class... Converted>
std::vector<double> classify() {
  auto const data = plait::in_memory<float>::random_classes(64, 6, 4);
  std::vector<double> losses;
  plait::launch<classifier<Element>>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<classifier<Element>>(rank, plait::adamw{.learning_rate = 0.02});
    auto train = [&](auto&& batches) {
      for (auto const& each : batches) {
        double const loss = trainer.step(each).loss;
        if (rank.is_root()) losses.push_back(loss);
      }
    };
    plait::global_batch<16> const size;
    plait::batch_options const options{.epochs = 4};
    if constexpr (sizeof...(Converted) == 0) train(plait::batches(data, size, rank, options));
    else train(plait::batches<Converted...>(data, size, rank, options));
  });
  return losses;
}

TEST(PrecisionOfFeatures, AreConvertedAsTheyAreLoaded) {
  auto const expected = classify<float>();
  auto const got = classify<mixed, plait::bfloat16>();
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 2e-2) << i;
  EXPECT_NE(got, expected);
  EXPECT_LT(got.back(), 0.6 * got.front());
}

TEST(PrecisionOfFeatures, OtherTypesAreAnErrorThatSaysWhatToWrite) {
  auto const data = plait::in_memory<float>::random_classes(64, 6, 4);
  try {
    plait::launch<classifier<mixed>>(plait::threads{}, [&](auto& rank) {
      auto trainer = plait::trainer<classifier<mixed>>(rank, plait::adamw{});
      auto batches = plait::batches(data, plait::global_batch<16>{}, rank);
      // A batch as a caller makes it: its type declares less than the type of a batch of `batches`.
      plait::device_batch<plait::ext::host_memory> const& first = batches.at(0);
      trainer.step(first);
    });
    FAIL() << "floats were taken for bfloat16";
  } catch (plait::size_mismatch const& e) {
    std::string const text = e.what();
    EXPECT_NE(text.find("features of 4 bytes, but the job computes with features of 2"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("plait::batches<"), std::string::npos) << text;
  }
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

// Half the bytes move on the tensor axis, and as many as in float on the data axis.
using tensor_mixed = small_gpt::job<small_gpt::tp2, mixed>::plan_type;
using tensor_float = small_gpt::job<small_gpt::tp2, float>::plan_type;
static_assert(tensor_mixed::bytes_sent(plait::axis::tensor, load).backward * 2 ==
              tensor_float::bytes_sent(plait::axis::tensor, load).backward);
using data_mixed = small_gpt::job<plait::data_parallel<2>, mixed>::plan_type;
using data_float = small_gpt::job<plait::data_parallel<2>, float>::plan_type;
static_assert(data_mixed::bytes_sent(plait::axis::data, load).step ==
              data_float::bytes_sent(plait::axis::data, load).step);

}  // namespace
