// SPDX-License-Identifier: Apache-2.0
#include "plait/core/static_vector.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace {

using plait::ext::static_vector;

TEST(StaticVector, KeepsWhatIsPushed) {
  static_vector<int, 3> list;
  EXPECT_EQ(list.size(), 0);
  EXPECT_EQ(list.begin(), list.end());
  list.push_back(5);
  list.push_back(7);
  EXPECT_EQ(list.size(), 2);
  EXPECT_EQ(list[0], 5);
  EXPECT_EQ(list.back(), 7);
  list[0] = 6;
  int sum = 0;
  for (int const each : list) sum += each;
  EXPECT_EQ(sum, 13);
}

TEST(StaticVector, RefusesMoreThanItsCapacity) {
  static_vector<int, 2> list;
  list.push_back(1);
  list.push_back(2);
  EXPECT_THROW(list.push_back(3), std::out_of_range);
  EXPECT_EQ(list.size(), 2);
}

TEST(StaticVector, MayHaveNoRoomAtAll) {
  static_vector<int, 0> none;
  EXPECT_EQ(none.size(), 0);
  EXPECT_EQ(none.begin(), none.end());
}

TEST(StaticVector, IsAConstant) {
  constexpr auto squares = [] {
    static_vector<int, 4> list;
    for (int i = 0; i < 4; ++i) list.push_back(i * i);
    return list;
  }();
  static_assert(squares.size() == 4);
  EXPECT_EQ(squares[3], 9);
}

}  // namespace
