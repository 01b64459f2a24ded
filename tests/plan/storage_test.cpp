// SPDX-License-Identifier: Apache-2.0
#include "plait/plan/memory/storage.hpp"

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
TYPED_TEST(Storage, WhatIsMadeAgainIsThereForEveryBackward) {
  expect_sound_recompute<plan<TypeParam, serial>>();
  expect_sound_recompute<plan<TypeParam, tensor_parallel<2>>>();
  expect_sound_recompute<plan<TypeParam, tensor_parallel<4>>>();
}
// The test notices each omitted step; a step that only renames its input moves nothing.
TEST(StorageCheck, FindsOmittedRecomputationOfStorage) {
  using right = plan<models::block<width, 4, length>, tensor_parallel<2, sequence::sharded>>;
  constexpr int all = int(granularity::all);
  auto recomputed = recompute_finder<right::leaf_count>(right::code, right::tree.leaves,
                                                        right::needs_gradient, bit_of(all))
                        .out;
  auto const storage = plan_storage(right::code, right::tree.leaves,
                                    {recomputed.stays.data(), right::code.values.size()},
                                    {recomputed.apart.data(), right::code.values.size()});
  int cleared = 0;
  for (int item = 0; item < right::code.items.size(); ++item)
    for (int s = right::code.items[item].first_node; s < right::code.items[item].end_node; ++s) {
      auto const& now = right::code.nodes[s];
      if (recomputed.node[std::size_t(s)] == 0 || is_another_name(right::code, storage, now))
        continue;
      auto const bits = std::exchange(recomputed.node[std::size_t(s)], 0);
      EXPECT_FALSE(symbolic_run<right>(item, 0, storage, &recomputed, all).faults().empty()) << s;
      recomputed.node[std::size_t(s)] = bits;
      ++cleared;
    }
  EXPECT_GE(cleared, 8);
}
// The check must find a fault in these plans if two values are put into one buffer.
template <class Plan, int Merged>
struct broken : Plan {
  static constexpr auto storage = [] {
    auto out = Plan::storage;
    int into = -1;
    for (int v = 0, seen = 0; v < Plan::code.values.size(); ++v) {
      auto& at = out.values[std::size_t(v)];
      if (at.root != v || at.where == storage_kind::input || at.where == storage_kind::output)
        continue;
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

// The purpose of sharing: in a block of GPT-2 the residual stream, the sums and the rows of a
// sequence shard cost no copy.
TEST(Storage, SharesWhatCanBeShared) {
  using serial_block = plan<models::block<width, 4, length>, serial>;
  auto const& values = serial_block::storage.values;
  for (auto const& now : serial_block::code.nodes) {
    if (now.kind != program_node_kind::branch) continue;
    EXPECT_EQ(values[std::size_t(now.in)].root, values[std::size_t(now.out)].root);
  }
  using relu_behind =
      plan<sequential<dense, residual<sequential<norm, dense, nn::relu<width>>>>, serial>;
  int shared = 0;
  for (auto const& now : relu_behind::code.nodes)
    if (now.kind == program_node_kind::leaf &&
        relu_behind::tree.leaves[now.leaf].may_alias.backward)
      shared += relu_behind::storage.gradients[std::size_t(now.in)].root ==
                relu_behind::storage.gradients[std::size_t(now.out)].root;
  EXPECT_GE(shared, 1);
}

}  // namespace
