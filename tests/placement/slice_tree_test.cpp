// SPDX-License-Identifier: Apache-2.0
//
// The tree along which slices are added up, against a tree that is written down as text.
#include "plait/placement/slice_tree.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace {

using plait::ext::slice_range;
using plait::ext::slice_tree;

/// The node of slices [first, end), with all its brackets.
std::string text_of(int first, int end) {
  if (end - first == 1) return std::to_string(first);
  int left = 1;
  while (2 * left < end - first) left *= 2;
  return "(" + text_of(first, first + left) + "+" + text_of(first + left, end) + ")";
}

TEST(SliceTree, IsThatOfPowersOfTwo) {
  EXPECT_EQ(text_of(0, 1), "0");
  EXPECT_EQ(text_of(0, 7), "(((0+1)+(2+3))+((4+5)+6))");
  EXPECT_EQ(slice_tree(12).sums_of_slices().size(), 11u);
}

// The actions of ranks, carried out on texts, give the same brackets for every number of ranks.
TEST(SliceTree, GivesOneSumForEveryNumberOfRanks) {
  for (int slices = 1; slices <= 40; ++slices)
    for (int ranks = 1; ranks <= slices; ++ranks) {
      slice_tree const tree(slices);
      int const each = tree.most_roots(ranks), room = tree.most_accumulators(ranks);
      std::vector<std::string> roots(std::size_t(ranks * each), "nothing");
      int next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        auto const mine = tree.of_rank(rank, ranks);
        EXPECT_EQ(mine.first, next);
        EXPECT_GE(mine.count, 1);
        EXPECT_LE(mine.count, tree.most_slices(ranks));
        next = mine.end();
        std::vector<std::string> held(std::size_t(room), "nothing");
        int slice = mine.first;
        for (auto const& now : tree.steps(mine)) {
          ASSERT_LT(now.accumulator, room);
          held[std::size_t(now.accumulator)] = std::to_string(slice++);
          for (int i = 0; i < now.sums; ++i) {
            auto const from = std::size_t(now.accumulator - i);
            ASSERT_GE(from, 1u);
            held[from - 1] = "(" + held[from - 1] + "+" + held[from] + ")";
          }
        }
        auto const own = tree.roots(mine);
        ASSERT_LE(int(own.size()), each);
        for (std::size_t i = 0; i < own.size(); ++i) {
          EXPECT_EQ(held[i], text_of(own[i].first, own[i].end()));
          roots[std::size_t(rank * each) + i] = held[i];
        }
      }
      EXPECT_EQ(next, slices);
      for (auto const& [to, from] : tree.sums_of_roots(ranks))
        roots[std::size_t(to)] =
            "(" + roots[std::size_t(to)] + "+" + roots[std::size_t(from)] + ")";
      EXPECT_EQ(roots[0], text_of(0, slices)) << slices << " slices, " << ranks << " ranks";
      EXPECT_LE(room, 2 * std::log2(double(slices) / ranks) + 2);
    }
}

TEST(SliceTree, HasTheRootsOfTwelveSlicesOnFourRanks) {
  constexpr slice_tree tree(12);
  EXPECT_EQ(tree.roots(tree.of_rank(1, 4)), (plait::ext::lean_vector<slice_range>{{3, 1}, {4, 2}}));
  static_assert(tree.most_roots(4) == 2 && tree.most_roots(12) == 1 && tree.most_roots(1) == 1);
  static_assert(tree.most_accumulators(12) == 1 && tree.most_accumulators(1) == 4);
}

}  // namespace
