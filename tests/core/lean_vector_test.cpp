// SPDX-License-Identifier: Apache-2.0
#include "plait/core/lean_vector.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using plait::ext::lean_vector;

using words = lean_vector<std::string>;

TEST(LeanVector, GrowsAndKeepsItsOrder) {
  lean_vector<int> many;
  EXPECT_TRUE(many.empty());
  EXPECT_EQ(many.begin(), many.end());
  for (int i = 0; i < 1000; ++i) many.push_back(i);
  ASSERT_EQ(many.size(), 1000u);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(many[std::size_t(i)], i);
  EXPECT_EQ(many.front(), 0);
  EXPECT_EQ(many.back(), 999);
  EXPECT_EQ(std::accumulate(many.begin(), many.end(), 0), 499'500);
  EXPECT_EQ(std::span<int const>(many).size(), 1000u);
  many.pop_back();
  EXPECT_EQ(many.back(), 998);
}

TEST(LeanVector, DoesWhatAVectorDoes) {
  words one{"a", "b", "c", "d"};
  std::vector<std::string> other{"a", "b", "c", "d"};
  auto const expect_same = [&] {
    ASSERT_EQ(one.size(), other.size());
    for (std::size_t i = 0; i < other.size(); ++i) EXPECT_EQ(one[i], other[i]) << i;
  };
  one.insert(one.begin(), "first"), other.insert(other.begin(), "first");
  expect_same();
  one.insert(one.begin() + 2, one[4]), other.insert(other.begin() + 2, other[4]);
  expect_same();
  one.insert(one.end(), "last"), other.insert(other.end(), "last");
  expect_same();
  one.erase(one.begin() + 1), other.erase(other.begin() + 1);
  expect_same();
  one.erase(one.end() - 1), other.erase(other.end() - 1);
  expect_same();
  one.resize(8), other.resize(8);
  expect_same();
  one.resize(3), other.resize(3);
  one.resize(5), other.resize(5);  // the old elements are gone
  expect_same();
  one.clear(), other.clear();
  expect_same();
  EXPECT_EQ((lean_vector<int>(3, 7)), (lean_vector<int>{7, 7, 7}));
  EXPECT_EQ((lean_vector<int>(3)), (lean_vector<int>{0, 0, 0}));
}

TEST(LeanVector, TakesAnElementOfItsOwn) {
  words one{"a long text that lies outside of the string itself"};
  for (int i = 0; i < 20; ++i) one.push_back(one[0]);
  for (auto const& each : one) EXPECT_EQ(each, one[0]);
}

TEST(LeanVector, CopiesAndMoves) {
  words const one{"a", "b"};
  words copy = one, moved = std::move(copy);
  EXPECT_EQ(moved, one);
  copy = moved;
  EXPECT_EQ(copy, one);
  copy.push_back("c");
  EXPECT_FALSE(copy == one);
  copy[0] = "z";
  EXPECT_EQ(moved[0], "a");
  moved = std::move(copy);
  EXPECT_EQ(moved.back(), "c");
  words& itself = moved;
  moved = itself;
  EXPECT_EQ(moved, (words{"z", "b", "c"}));
}

TEST(LeanVector, HoldsWhatCannotBeCopiedOrMoved) {
  lean_vector<std::unique_ptr<int>> owners;
  for (int i = 0; i < 10; ++i) owners.push_back(std::make_unique<int>(i));
  EXPECT_EQ(*owners[9], 9);
  lean_vector<std::atomic<int>> fixed(3);
  for (auto& each : fixed) EXPECT_EQ(each.load(), 0);
}

/// Counts itself; the third copy throws.
struct counted {
  static inline int alive = 0, copies = 0;
  counted() { ++alive; }
  counted(counted const&) : counted() { copy(); }
  counted(counted&&) noexcept : counted() {}
  counted& operator=(counted const&) {
    copy();
    return *this;
  }
  counted& operator=(counted&&) noexcept { return *this; }
  ~counted() { --alive; }
  static void copy() {
    if (++copies == 3) throw std::runtime_error("the third copy");
  }
};
TEST(LeanVector, LosesNothingWhenACopyThrows) {
  {
    lean_vector<counted> const four(4);
    EXPECT_THROW(lean_vector<counted>{four}, std::runtime_error);
  }
  EXPECT_EQ(counted::alive, 0);
}

constexpr int sum_of_squares(int count) {
  lean_vector<lean_vector<int>> rows;
  for (int i = 0; i < count; ++i) rows.push_back(lean_vector<int>(2, i));
  auto const copy = rows;
  int sum = 0;
  for (auto const& row : copy) sum += row[0] * row[1];
  return sum;
}
static_assert(sum_of_squares(10) == 285);

}  // namespace
