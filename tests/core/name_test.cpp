// SPDX-License-Identifier: Apache-2.0
#include "plait/core/name.hpp"

#include <gtest/gtest.h>

namespace {

using plait::ext::name;

template <name Label>
struct keyed {
  static constexpr name label = Label;
};

TEST(Name, KeepsItsCharacters) {
  constexpr name weight = "weight";
  EXPECT_EQ(weight.text(), "weight");
  EXPECT_EQ(weight.size(), 6u);
  EXPECT_EQ(weight[0], 'w');
  EXPECT_EQ(weight[5], 't');
  EXPECT_EQ(weight[6], '\0');
  EXPECT_EQ(weight[1000], '\0');
  EXPECT_FALSE(weight.empty());
}

TEST(Name, HoldsUpTo32Characters) {
  constexpr name longest = "0123456789abcdef0123456789ABCDEF";
  EXPECT_EQ(longest.size(), name::capacity);
  EXPECT_EQ(longest.text(), "0123456789abcdef0123456789ABCDEF");
}

TEST(Name, TheEmptyNameIsEmpty) {
  EXPECT_TRUE(name{}.empty());
  EXPECT_TRUE(name("").empty());
  EXPECT_EQ(name{}.size(), 0u);
  EXPECT_EQ(name{}.text(), "");
}

TEST(Name, DiffersInEveryCharacter) {
  constexpr name text = "0123456789abcdef0123456789ABCDEF";
  EXPECT_EQ(text, name("0123456789abcdef0123456789ABCDEF"));
  EXPECT_NE(text, name("1123456789abcdef0123456789ABCDEF"));
  EXPECT_NE(text, name("01234567_9abcdef0123456789ABCDEF"));
  EXPECT_NE(text, name("0123456789abcdef_123456789ABCDEF"));
  EXPECT_NE(text, name("0123456789abcdef0123456789ABCDE_"));
  EXPECT_NE(name("a"), name("aa"));
  EXPECT_EQ(name("\xc3\xa9").size(), 2u);  // bytes above 127 do not spill into their neighbours
}

TEST(Name, IsATemplateArgument) {
  static_assert(keyed<"bias">::label == name("bias"));
  EXPECT_FALSE((std::is_same_v<keyed<"bias">, keyed<"bia">>));
}

}  // namespace
