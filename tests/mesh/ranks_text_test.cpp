// SPDX-License-Identifier: Apache-2.0
#include "plait/mesh/ranks_text.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plait/backend/collective_call.hpp"

namespace {

using plait::ext::ranks_text;

std::vector<int> from_to(int first, int last) {
  std::vector<int> out;
  for (int rank = first; rank <= last; ++rank) out.push_back(rank);
  return out;
}

TEST(RanksText, RangesOfThreeOrMore) {
  EXPECT_EQ(ranks_text({3}), "rank 3");
  EXPECT_EQ(ranks_text({0, 1}), "ranks 0 and 1");
  EXPECT_EQ(ranks_text({0, 1, 3}), "ranks 0, 1 and 3");
  EXPECT_EQ(ranks_text({0, 1, 2}), "ranks 0-2");
  EXPECT_EQ(ranks_text({0, 2, 4}), "ranks 0, 2 and 4");
  auto many = from_to(1, 7);
  many.push_back(9);
  for (int const rank : from_to(12, 31)) many.push_back(rank);
  EXPECT_EQ(ranks_text(many), "ranks 1-7, 9 and 12-31");
  EXPECT_EQ(ranks_text({2, 1, 0}), "ranks 2, 1 and 0");
}

TEST(RanksText, GroupsOfManyAreShort) {
  using plait::ext::ranks_in_braces;
  EXPECT_EQ(ranks_in_braces({0, 1, 2, 3}), "{0,1,2,3}");
  EXPECT_EQ(ranks_in_braces(from_to(0, 7)), "{0,1,2,3,4,5,6,7}");
  EXPECT_EQ(ranks_in_braces(from_to(0, 31)), "{0-31}");
  EXPECT_EQ(ranks_in_braces({0, 2, 4, 6, 8, 10, 12, 14, 16}), "{0,2,4,6,8,10,12,14,16}");
}

}  // namespace
