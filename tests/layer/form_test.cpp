// SPDX-License-Identifier: Apache-2.0
#include "plait/layer/form.hpp"

#include <gtest/gtest.h>

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;

using weight = parameter<"weight", extents<6, 8>>;
using bias = parameter<"bias", extents<8>>;
using inside = slot<"inside", 8>;
using room = slot<"room", 8, follows::features>;
using keys =
    detail::clause_keys<parameter_list<weight, bias>, saved<input_slot, inside>, scratch<room>, 1>;

template <class Form>
constexpr form_info read = detail::form_as_read<keys, Form>.info;

TEST(Form, ColumnSplit) {
  constexpr auto info = read<column<split<weight, 1, 3>, split<bias, 0, 3>>>;
  EXPECT_EQ(info.label, name("column"));
  EXPECT_EQ(info.input(), replicate);
  EXPECT_EQ(info.output, shard<dim::features>);
  EXPECT_EQ(info.uses[0], (shard<1, 3>));
  EXPECT_EQ(info.uses[1], (shard<0, 3>));
  EXPECT_TRUE(info.shares_work());
}

TEST(Form, RowSplitWithABiasThatEntersOnce) {
  constexpr auto info = read<row_split<split<weight, 0>, once<bias>>>;
  EXPECT_EQ(info.input(), shard<dim::features>);
  EXPECT_EQ(info.output, partial);
  EXPECT_EQ(info.uses[0], shard<0>);
  EXPECT_EQ(info.uses[1], partial);
  EXPECT_TRUE(info.shares_work());
}

TEST(Form, SlotsStandAsTheFormSaysOrAsTheyFollow) {
  constexpr auto row = read<row_split<split<weight, 0>, use<inside, partial>>>;
  constexpr auto both = detail::read_slots(saved<input_slot, inside>{}).own[0];
  constexpr auto follower = detail::read_slots<slots_info::most_slots>(scratch<room>{}).own[0];
  EXPECT_EQ(placement_of(both, row), partial);
  EXPECT_EQ(placement_of(follower, row), shard<dim::features>);
  EXPECT_EQ(placement_of(both, read<by_features>), invariant);
  EXPECT_EQ(placement_of(both, read<by_sequence<>>), shard<dim::sequence>);
  EXPECT_EQ(placement_of(follower, read<by_sequence<>>), shard<dim::sequence>);
  EXPECT_EQ(placement_of(follower, read<whole>), invariant);
}

// If ranks repeat one computation, a parameter's gradient is complete on each of them; if they work
// on different rows or columns, each has a summand of it.
TEST(Form, UnusedParametersFollowTheInput) {
  EXPECT_EQ(read<whole>.uses[0], invariant);
  EXPECT_EQ(read<whole>.uses[1], invariant);
  EXPECT_FALSE(read<whole>.shares_work());
  EXPECT_EQ(read<by_sequence<>>.uses[0], replicate);
  EXPECT_EQ(read<by_features>.uses[1], replicate);
  EXPECT_EQ((read<column<split<weight, 1>>>.uses[1]), replicate);
}

TEST(Form, InnerMovesAreKeptInOrder) {
  constexpr auto info = read<form<"classes", shard<dim::features>, invariant,
                                  inner<partial_max, invariant, 1>, inner<partial, invariant, 2>>>;
  ASSERT_EQ(info.inner_count, 2);
  EXPECT_EQ(info.inner[0].from, partial_max);
  EXPECT_EQ(info.inner[0].width, 1u);
  EXPECT_EQ(info.inner[1].from, partial);
  EXPECT_EQ(info.inner[1].to, invariant);
  EXPECT_EQ(info.inner[1].width, 2u);
}

TEST(Form, AParameterIsStoredAsTheShardThatIsUsedOrInvariant) {
  EXPECT_EQ(stored(shard<1>), shard<1>);
  EXPECT_EQ((stored(shard<0, 3>)), (shard<0, 3>));
  EXPECT_EQ(stored(replicate), invariant);
  EXPECT_EQ(stored(partial), invariant);
  EXPECT_EQ(stored(invariant), invariant);
  // Each of these is a row of the table, so that the gradient has a way back.
  for (auto const used : {shard<0>, replicate, partial, invariant})
    EXPECT_TRUE(transition_between(stored(used), used).allowed());
}

}  // namespace
