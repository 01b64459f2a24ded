// SPDX-License-Identifier: Apache-2.0
#include "plait/mesh/placements.hpp"

#include <gtest/gtest.h>

namespace {

using namespace plait;
using namespace plait::ext;

constexpr placements anywhere{};

TEST(Placements, SaysOnlyWhatIsNotInvariant) {
  EXPECT_EQ(to_string(anywhere), "{}");
  EXPECT_EQ(to_string(anywhere.with(axis::tensor, partial).with(axis::data, shard<dim::batch>)),
            "{data: shard<batch>, tensor: partial}");
  static_assert(anywhere.with(axis::stage, only<1>).at(axis::stage) == only<1>);
  static_assert(anywhere.with(axis::stage, only<1>) != anywhere);
}

TEST(Placements, TheRowOfTheOneAxisThatChanges) {
  constexpr auto samples = anywhere.with(axis::data, shard<dim::batch>);
  static_assert(transition_between(samples, samples) == placements_transition{});
  static_assert(transition_between(samples.with(axis::tensor, partial), samples) ==
                placements_transition{collective::all_reduce, axis::tensor, true});
  static_assert(
      transition_between(samples.with(axis::stage, only<0>), samples.with(axis::stage, only<1>)) ==
      placements_transition{collective::send, axis::stage, true});
  static_assert(transition_between(samples, samples.with(axis::tensor, shard<dim::features>)) ==
                placements_transition{});  // a slice sends nothing
}

TEST(Placements, SumsOverSeveralAxesAreOne) {
  constexpr auto from = anywhere.with(axis::data, partial).with(axis::tensor, partial);
  static_assert(transition_between(from, anywhere) ==
                placements_transition{collective::all_reduce, axis::data | axis::tensor, true});
  static_assert(transition_between(from, anywhere.with(axis::data, partial)) ==
                placements_transition{collective::all_reduce, axis::tensor, true});
}

TEST(Placements, OtherRowsAreNotJoined) {
  constexpr auto from = anywhere.with(axis::data, partial).with(axis::tensor, shard<0>);
  static_assert(!transition_between(from, anywhere).allowed);  // a sum and a gather
  constexpr auto cut = anywhere.with(axis::data, shard<0>).with(axis::tensor, shard<0>);
  static_assert(!transition_between(cut, anywhere).allowed);  // two gathers
  static_assert(!transition_between(anywhere.with(axis::data, partial_max),
                                    anywhere.with(axis::data, partial))
                     .allowed);  // no row
}

// Along data, then along replicas: for data, a block that replicas have cut is not a run of
// elements.
TEST(Placements, OfElementsCutAlongTwoAxesTheLastCutGoesFirst) {
  constexpr auto cut = shard<dim::elements>;
  constexpr auto both = anywhere.with(axis::data, cut).with(axis::replica, cut);
  static_assert(transition_between(both, both.with(axis::replica, invariant)) ==
                placements_transition{collective::all_gather, axis::replica, true});
  static_assert(!transition_between(both, both.with(axis::data, invariant)).allowed);
  static_assert(transition_between(both.with(axis::replica, partial), both).allowed);
  static_assert(!transition_between(both.with(axis::data, partial), both).allowed);
  static_assert(transition_between(both.with(axis::tensor, partial), both).allowed);
}

}  // namespace
