// SPDX-License-Identifier: Apache-2.0
#include "plait/policy/policies.hpp"

#include <gtest/gtest.h>

#include <type_traits>

#include "plait/schedule/gpipe.hpp"

namespace {

using namespace plait;
using namespace plait::ext;

static_assert(policy<serial>);
static_assert(policy<data_parallel<2>> && policy<data_parallel<>>);
static_assert(policy<tensor_parallel<2>> && policy<pipeline<2>>);
static_assert(policy<hybrid<>> && policy<hybrid<data_parallel<2>, tensor_parallel<2>>>);

struct untagged {};
static_assert(!policy<untagged> && !policy<gpipe> && !policy<int>);

// A policy costs nothing.
static_assert(std::is_empty_v<hybrid<data_parallel<2>, tensor_parallel<2>, pipeline<2>>>);

TEST(Policies, EachMakesItsAxis) {
  static_assert(mesh_of<serial>.world_size() == 1 && mesh_of<serial>.dimension_count == 0);
  static_assert(mesh_of<data_parallel<3>>.size(axis::data) == 3);
  static_assert(mesh_of<tensor_parallel<4>>.size(axis::tensor) == 4);
  static_assert(mesh_of<pipeline<5>>.size(axis::stage) == 5);
  EXPECT_TRUE((mesh_of<data_parallel<>>.size(axis::data) == 0)) << "chosen at launch";
}

TEST(Policies, AHybridIsOneMeshInTheOrderWritten) {
  using three = hybrid<pipeline<2>, data_parallel<3>, tensor_parallel<4>>;
  constexpr auto grid = mesh_of<three>;
  static_assert(grid.world_size() == 24);
  EXPECT_EQ(grid.coordinates_of(1), (coordinates{0, 1, 0}));
  EXPECT_EQ(grid.coordinates_of(4), (coordinates{1, 0, 0}));
  EXPECT_EQ(grid.coordinates_of(12), (coordinates{0, 0, 1}));

  constexpr auto other = mesh_of<hybrid<tensor_parallel<4>, data_parallel<3>, pipeline<2>>>;
  static_assert(other.world_size() == 24);
  EXPECT_EQ(other.coordinates_of(1), (coordinates{0, 0, 1}));
}

TEST(Policies, HybridsNest) {
  using inner = hybrid<data_parallel<2>, tensor_parallel<3>>;
  using nested = hybrid<pipeline<2>, inner>;
  using flat = hybrid<pipeline<2>, data_parallel<2>, tensor_parallel<3>>;
  for (int rank = 0; rank < mesh_of<flat>.world_size(); ++rank)
    EXPECT_EQ(mesh_of<nested>.coordinates_of(rank), mesh_of<flat>.coordinates_of(rank));
  static_assert(std::is_same_v<policy_along<nested, axis::tensor>, tensor_parallel<3>>);
}

TEST(Policies, ThePartAlongAnAxis) {
  using two = hybrid<data_parallel<2>, pipeline<2, gpipe, cut_at<3>>>;
  static_assert(std::is_same_v<policy_along<two, axis::data>, data_parallel<2>>);
  static_assert(std::is_same_v<policy_along<two, axis::stage>, pipeline<2, gpipe, cut_at<3>>>);
  static_assert(std::is_same_v<policy_along<two, axis::tensor>, serial>);
  static_assert(std::is_same_v<policy_along<serial, axis::data>, serial>);
  static_assert(std::is_same_v<policy_along<data_parallel<>, axis::data>, data_parallel<>>);
  static_assert(std::is_same_v<policy_along<hybrid<>, axis::data>, serial>);
  EXPECT_TRUE((std::is_same_v<policy_along<hybrid<serial, data_parallel<2>>, axis::data>,
                              data_parallel<2>>));
}

TEST(Policies, APipelineKnowsItsScheduleAndItsCuts) {
  static_assert(std::is_same_v<pipeline<2>::schedule_type, one_forward_one_backward>);
  static_assert(std::is_same_v<pipeline<2>::cuts, balanced>);
  static_assert(std::is_same_v<pipeline<2, gpipe>::schedule_type, gpipe>);
  EXPECT_TRUE((std::is_same_v<pipeline<3, gpipe, cut_at<1, 2>>::cuts, cut_at<1, 2>>));
}

TEST(Policies, TheSequenceIsCutOnlyByTheSwitch) {
  static_assert(!tensor_parallel<2>::forms.sequence);
  EXPECT_TRUE((tensor_parallel<2, sequence::sharded>::forms.sequence));
}

struct own_data {
  using concept_tag = policy_tag;
  static constexpr axis along = axis::data;
  static constexpr int ranks = 2;
  static constexpr placement samples = shard<dim::batch>;
  static constexpr parameter_rule parameters{.summed = partial};
};
struct own_replicas : own_data {
  static constexpr axis along = axis::replica;
};

// The advice of `explain`.
TEST(Policies, BlocksOfOwnersAreAdvisedInTheWordsOfThePolicy) {
  using detail::with_owned_blocks;
  EXPECT_EQ((with_owned_blocks<hybrid<pipeline<2>, data_parallel<3>>>()),
            "data_parallel<3, zero<1>>");
  EXPECT_EQ(with_owned_blocks<data_parallel<>>(), "data_parallel<plait::at_launch, zero<1>>");
  auto const own =
      "`.owned = plait::shard<plait::dim::elements>` in the `parameters` of each policy";
  for (auto const& text : {with_owned_blocks<own_data>(), with_owned_blocks<own_replicas>(),
                           with_owned_blocks<hybrid<data_parallel<2>, own_replicas>>()})
    EXPECT_TRUE(text.starts_with(own)) << text;
}

}  // namespace
