#include "plait/placement/transition.hpp"

#include <gtest/gtest.h>

#include <array>

namespace {

using namespace plait;
using namespace plait::ext;

constexpr std::array placements{replicate, invariant, shard<0>, shard<1>, shard<dim::features>,
                                partial,   only<0>,   only<1>};

TEST(Transition, DualIsAnInvolution) {
  for (auto at : placements) EXPECT_EQ(dual(dual(at)), at);
}

TEST(Transition, EveryPairIsARowAndItsAdjointIsARowThatLeadsBack) {
  for (auto from : placements)
    for (auto to : placements) {
      auto const row = transition_between(from, to);
      ASSERT_TRUE(row.allowed()) << to_string(from) << " -> " << to_string(to);
      auto const back = adjoint(row);
      ASSERT_TRUE(back.allowed()) << to_string(from) << " -> " << to_string(to);
      auto const again = adjoint(back);
      EXPECT_EQ(again.from, row.from);
      EXPECT_EQ(again.to, row.to);
      EXPECT_EQ(again.moves, row.moves);
    }
}

// The table of bytes for 4 ranks and a value of 96 bytes: forward and adjoint as multiples of 96.
TEST(Transition, BytesOnFourRanks) {
  constexpr std::array<placement, 7> rows{replicate, invariant, shard<0>, shard<1>,
                                          partial,   only<0>,   only<1>};
  constexpr double forward[7][7] = {{0, 0, 0, 0, 0, 0, 0},
                                    {0, 0, 0, 0, 0, 0, 0},
                                    {.75, .75, 0, .1875, 0, .75, .75},
                                    {.75, .75, .1875, 0, 0, .75, .75},
                                    {1.5, 1.5, .75, .75, 0, 1, 1},
                                    {1, 1, .75, .75, 0, 0, 1},
                                    {1, 1, .75, .75, 0, 1, 0}};
  constexpr double backward[7][7] = {
      {0, 0, 0, 0, 0, 0, 0},           {1.5, 0, .75, .75, 0, 1, 1}, {.75, 0, 0, .1875, 0, .75, .75},
      {.75, 0, .1875, 0, 0, .75, .75}, {1.5, 0, .75, .75, 0, 1, 1}, {1, 0, .75, .75, 0, 0, 1},
      {1, 0, .75, .75, 0, 1, 0}};
  for (std::size_t i = 0; i < 7; ++i)
    for (std::size_t j = 0; j < 7; ++j) {
      auto const row = transition_between(rows[i], rows[j]);
      EXPECT_EQ(static_cast<double>(bytes_sent(row.moves, 96, 4)), 96 * forward[i][j])
          << to_string(rows[i]) << " -> " << to_string(rows[j]);
      EXPECT_EQ(static_cast<double>(bytes_sent(adjoint(row).moves, 96, 4)), 96 * backward[i][j])
          << "adjoint of " << to_string(rows[i]) << " -> " << to_string(rows[j]);
    }
}

TEST(Transition, DirectRowNeverCostsMoreThanTwoSteps) {
  for (int ranks : {2, 3, 4})
    for (auto a : placements)
      for (auto b : placements)
        for (auto c : placements) {
          auto bytes = [&](transition row) { return bytes_sent(row.moves, 144, ranks); };
          auto const ab = transition_between(a, b), bc = transition_between(b, c),
                     ac = transition_between(a, c);
          EXPECT_LE(bytes(ac), bytes(ab) + bytes(bc));
          EXPECT_LE(bytes(adjoint(ac)), bytes(adjoint(ab)) + bytes(adjoint(bc)));
        }
}

TEST(Transition, RefusesWhatHasNoMeaning) {
  EXPECT_FALSE(transition_between(shard<dim::features>, shard<dim::features, 3>).allowed());
  EXPECT_FALSE(transition_between(partial_max, partial).allowed());
  EXPECT_FALSE(transition_between(partial_max, shard<0>).allowed());
  EXPECT_FALSE(adjoint(transition_between(partial_max, replicate)).allowed());
  EXPECT_EQ(transition_between(replicate, partial).status, derivation::by_name);
  EXPECT_EQ(transition_between(replicate, invariant).status, derivation::by_name);
}

TEST(Transition, OneRankSendsNothing) {
  for (auto from : placements)
    for (auto to : placements)
      EXPECT_EQ(bytes_sent(transition_between(from, to).moves, 1024, 1), 0);
}

TEST(Placement, Text) {
  EXPECT_EQ(to_string(shard<dim::features, 3>), "shard<features, 3 parts>");
  EXPECT_EQ(to_string(shard<1>), "shard<1>");
  EXPECT_EQ(to_string(only<12>), "only<12>");
}

}  // namespace
