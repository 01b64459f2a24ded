// SPDX-License-Identifier: Apache-2.0
#include "plait/layer/slot.hpp"

#include <gtest/gtest.h>

namespace {

using namespace plait;
using namespace plait::ext;

using mean = slot<"mean", 1>;
using heads = slot<"heads", 4, follows::features>;
using table = slot<"table", 0, follows::rows, 64>;

TEST(Slot, InputAndOutputTakeNoRoomOfTheirOwn) {
  constexpr auto info = detail::read_slots(saved<input_slot, mean, output_slot, heads>{});
  EXPECT_TRUE(info.keeps_input);
  EXPECT_TRUE(info.keeps_output);
  ASSERT_EQ(info.own.size(), 2);
  EXPECT_EQ(info.own[0].label, name("mean"));
  EXPECT_EQ(info.own[0].per_row, 1u);
  EXPECT_FALSE(info.own[0].follows_features);
  EXPECT_EQ(info.own[1].label, name("heads"));
  EXPECT_TRUE(info.own[1].follows_features);
}

TEST(Slot, OptionsMayHaveAnyOrder) {
  using one = slot<"one", 4, follows::features, 5, slot_element::accumulate>;
  using other = slot<"other", 4, slot_element::accumulate, 5, follows::features>;
  constexpr auto info = detail::read_slots(saved<one, other>{});
  for (auto const& own : {info.own[0], info.own[1]}) {
    EXPECT_EQ(own.fixed, 5u);
    EXPECT_TRUE(own.follows_features);
    EXPECT_EQ(own.element, slot_element::accumulate);
  }
  EXPECT_EQ(detail::read_slots(saved<mean>{}).own[0].element, slot_element::compute);
}

TEST(Slot, AFixedSizeIsNotPerRow) {
  constexpr auto info = detail::read_slots(scratch<table>{});
  EXPECT_EQ(info.own[0].per_row, 0u);
  EXPECT_EQ(info.own[0].fixed, 64u);
  EXPECT_FALSE(info.keeps_input || info.keeps_output);
}

TEST(Slot, EachListHasRoomForThirtyTwo) {
  using list = scratch<slot<"a", 1>, slot<"b", 2>, slot<"c", 3>, input_slot, slot<"d", 4>,
                       slot<"e", 5>, slot<"f", 6>, slot<"g", 7>, slot<"h", 8>, slot<"i", 9>,
                       slot<"j", 10>, slot<"k", 11>, slot<"l", 12>, slot<"m", 13>, slot<"n", 14>,
                       slot<"o", 15>, slot<"p", 16>, slot<"q", 17>, slot<"r", 18>, slot<"s", 19>,
                       slot<"t", 20>, slot<"u", 21>, slot<"v", 22>, slot<"w", 23>, slot<"x", 24>,
                       slot<"y", 25>, slot<"z", 26>, slot<"aa", 27>, slot<"bb", 28>, slot<"cc", 29>,
                       slot<"dd", 30>, slot<"ee", 31>, slot<"ff", 32>>;
  constexpr auto info = detail::read_slots<slots_info::most_slots>(list{});
  ASSERT_EQ(info.own.size(), slots_info::most_slots);
  for (int k = 0; k < info.own.size(); ++k) {
    EXPECT_EQ(info.own[k].per_row, std::size_t(k) + 1);
    EXPECT_EQ(info.own[k].number, slots_info::most_slots + k);
  }
}

TEST(Slot, TheTypeIsTheKeyAmongTheOwnSlots) {
  using list = saved<input_slot, mean, output_slot, heads>;
  static_assert(detail::own_slot_index<list, mean> == 0);
  static_assert(detail::own_slot_index<list, heads> == 1);
  static_assert(detail::own_slot_index<list, table> == -1);
  EXPECT_EQ((detail::own_slot_index<saved<>, mean>), -1);
}

}  // namespace
