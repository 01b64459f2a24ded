// SPDX-License-Identifier: Apache-2.0
#include "plait/plan/storage.hpp"

#include <gtest/gtest.h>

#include <cstddef>

#include "plan/symbolic_run.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;
using namespace plait::planning::shared_models;

template <class Model>
struct Storage : ::testing::Test {};

TYPED_TEST_SUITE(Storage, Models);

TYPED_TEST(Storage, EveryStepReadsWhatWasWrittenSerial) { expect_sound<plan<TypeParam, serial>>(); }
TYPED_TEST(Storage, EveryStepReadsWhatWasWrittenOnTwoTensorRanks) {
  expect_sound<plan<TypeParam, tensor_parallel<2>>>();
}
TYPED_TEST(Storage, EveryStepReadsWhatWasWrittenOnFourTensorRanks) {
  expect_sound<plan<TypeParam, tensor_parallel<4>>>();
}
// The check itself must find a fault: the same plans with two values put into one buffer.
template <class Plan, int Merged>
struct broken : Plan {
  static constexpr auto storage = [] {
    auto out = Plan::storage;
    int into = -1;
    for (int v = 0, seen = 0; v < Plan::code.values.size(); ++v) {
      auto& at = out.values[std::size_t(v)];
      if (at.root != v || at.where == home::input || at.where == home::output) continue;
      if (into < 0) into = v;
      else if (++seen == Merged) at = out.values[std::size_t(into)];
    }
    return out;
  }();
};

TEST(StorageCheck, FindsTwoLiveValuesInOneBuffer) {
  using right = plan<residual<sequential<norm, wide, nn::gelu<4 * width>, narrow>>, serial>;
  EXPECT_TRUE(symbolic_run<right>(0, 0).faults().empty());
  auto const faults = symbolic_run<broken<right, 1>>(0, 0).faults();
  EXPECT_FALSE(faults.empty());
}

// What the sharing is for: in a block of GPT-2 the residual stream, the sums and the rows of a
// sequence shard cost no copy.
TEST(Storage, SharesWhatCanBeShared) {
  using serial_block = plan<models::block<width, 4, length>, serial>;
  auto const& values = serial_block::storage.values;
  for (auto const& now : serial_block::code.steps) {
    if (now.kind != step_kind::branch) continue;
    EXPECT_EQ(values[std::size_t(now.in)].root, values[std::size_t(now.out)].root);
  }
  using relu_behind =
      plan<sequential<dense, residual<sequential<norm, dense, nn::relu<width>>>>, serial>;
  int shared = 0;
  for (auto const& now : relu_behind::code.steps)
    if (now.kind == step_kind::leaf && relu_behind::tree.leaves[now.leaf].may_alias.backward)
      shared += relu_behind::storage.gradients[std::size_t(now.in)].root ==
                relu_behind::storage.gradients[std::size_t(now.out)].root;
  EXPECT_GE(shared, 1);
}

}  // namespace
