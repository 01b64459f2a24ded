// SPDX-License-Identifier: Apache-2.0
#include "plait/testing/check_policy.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <string>

namespace {

using namespace plait;
using namespace plait::ext;

/// Copies of the data ranks' work, whose optimizers own blocks.
template <int Ranks>
struct sharded_replicas {
  using concept_tag = policy_tag;
  static constexpr axis along = axis::replica;
  static constexpr int ranks = Ranks;
  static constexpr placement samples = shard<dim::batch>;
  static constexpr parameter_rule parameters{.summed = partial, .owned = shard<dim::elements>};
};

/// A policy without an axis.
struct remark {
  using concept_tag = policy_tag;
};
/// Consists of other policies, one of which has no axis.
struct rows_of_two {
  using concept_tag = policy_tag;
  using policies = policy_list<pipeline<2>, remark, data_parallel<2>>;
};

/// Cuts positions and nothing else.
struct positions_only {
  using concept_tag = policy_tag;
  static constexpr axis along = axis::context;
  static constexpr int ranks = 2;
  static constexpr form_cuts forms{.features = false, .sequence = true};
};

/// Cuts what tensor_parallel<2> cuts, along another axis.
template <axis Along>
struct features_along {
  using concept_tag = policy_tag;
  static constexpr axis along = Along;
  static constexpr int ranks = 2;
  static constexpr form_cuts forms{};
};

TEST(CheckPolicy, PlaitsOwnPass) {
  auto const report =
      plait::testing::check_policy<hybrid<pipeline<2>, data_parallel<>, tensor_parallel<2>>>();
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_EQ(report.checked.size(), 2u);
}

TEST(CheckPolicy, DelayedUpdatesAreComparedWithDelayedUpdates) {
  auto const report =
      plait::testing::check_policy<hybrid<pipeline<2>, data_parallel<2, zero<1>, delayed<1>>>>();
  EXPECT_TRUE(report.passed()) << report.text();
}

TEST(CheckPolicy, APolicyOfOnesOwnInAHybrid) {
  // example-begin check
  using mine = plait::hybrid<plait::pipeline<2>, plait::data_parallel<2>, sharded_replicas<2>>;
  auto const report = plait::testing::check_policy<mine>();
  EXPECT_TRUE(report.passed()) << report.text();
  // example-end
}

// Each of six ranks owns a block; with the axes the other way round and a size given at launch,
// too.
TEST(CheckPolicy, OptimizersThatOwnBlocksAlongTwoAxes) {
  using data_last = hybrid<sharded_replicas<2>, data_parallel<3, zero<1>>>;
  using data_first = hybrid<data_parallel<at_launch, zero<1>>, sharded_replicas<3>>;
  for (auto const& report : {plait::testing::check_policy<data_last>(),
                             plait::testing::check_policy<data_first>({.data_ranks = 2})})
    EXPECT_TRUE(report.passed()) << report.text();
}

/// A level of zero on any axis whose ranks have samples of their own.
template <axis Along, int Ranks, int Level>
struct level_along {
  using concept_tag = policy_tag;
  static constexpr axis along = Along;
  static constexpr int ranks = Ranks;
  static constexpr placement samples = shard<dim::batch>;
  static constexpr parameter_rule parameters = zero<Level>::parameters;
  static constexpr std::size_t bucket_bytes = 1;
};
template <class First, class Second>
void expect_both_orders() {
  for (auto const& report : {plait::testing::check_policy<hybrid<First, Second>>(),
                             plait::testing::check_policy<hybrid<Second, First>>()})
    EXPECT_TRUE(report.passed()) << report.text();
}
TEST(CheckPolicy, LevelsAlongTwoAxesInBothOrders) {
  expect_both_orders<level_along<axis::replica, 2, 1>, level_along<axis::data, 2, 3>>();
  expect_both_orders<level_along<axis::replica, 2, 3>, level_along<axis::data, 3, 3>>();
  expect_both_orders<level_along<axis::replica, 2, 2>, level_along<axis::data, 2, 2>>();
}

TEST(CheckPolicy, APolicyThatConsistsOfOthers) {
  static_assert(mesh_of<rows_of_two>.world_size() == 4);
  static_assert(mesh_of<rows_of_two>.fits(mesh_of<hybrid<pipeline<2>, data_parallel<2>>>));
}

TEST(CheckPolicy, FormsCutWhatThePolicySays) {
  using plan = plait::testing::detail::checked_job<plait::testing::detail::checked_tokens,
                                                   positions_only>::plan_type;
  auto const cuts = [](placement at, int dimension) {
    return is_shard(at) && at.index == dimension;
  };
  int by_positions = 0;
  for (auto const* form : plan::code.forms) {
    EXPECT_FALSE(cuts(form->input(), dim::features) || cuts(form->output, dim::features));
    by_positions += cuts(form->output, dim::sequence);
  }
  EXPECT_GT(by_positions, 3);
}

// The code asks the mesh along which axis forms divide work, and has no axis of its own for it.
TEST(CheckPolicy, FormsDivideWorkAlongAnyModelAxis) {
  using data_and_experts = hybrid<data_parallel<2>, features_along<axis::expert>>;
  for (auto const& report : {plait::testing::check_policy<data_and_experts>(),
                             plait::testing::check_policy<positions_only>()})
    EXPECT_TRUE(report.passed()) << report.text();
  using plait::testing::detail::checked_job, plait::testing::detail::checked_tokens;
  using of_tensor = checked_job<checked_tokens, tensor_parallel<2>>::plan_type;
  using of_experts = checked_job<checked_tokens, features_along<axis::expert>>::plan_type;
  workload const load{.rows = 48};
  auto const sent = of_experts::bytes_sent(axis::expert, load);
  EXPECT_GT(sent.total(), 0u);
  EXPECT_EQ(sent.total(), of_tensor::bytes_sent(axis::tensor, load).total());
  EXPECT_EQ(of_experts::bytes_sent(axis::tensor, load).total(), 0u);
  EXPECT_EQ(of_experts::memory(0, load).total(), of_tensor::memory(0, load).total());
}

// Sums over samples are rounded in another order than on one rank.
TEST(CheckPolicy, ADifferenceIsASentenceWithBothNumbers) {
  auto const report = plait::testing::check_policy<data_parallel<3>>({.tolerance = 0});
  EXPECT_FALSE(report.passed());
  EXPECT_NE(report.text().find("the same as on one rank"), std::string::npos) << report.text();
  // Everything is near everything if the bound is nan.
  EXPECT_THROW((void)plait::testing::check_policy<data_parallel<3>>({.tolerance = std::nan("")}),
               input_error);
  // A norm by which nothing is clipped is not compared, either.
  EXPECT_THROW((void)plait::testing::check_policy<data_parallel<3>>({.clip = 0}), input_error);
}

}  // namespace
