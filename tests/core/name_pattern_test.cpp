// SPDX-License-Identifier: Apache-2.0
#include "plait/core/name_pattern.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace plait::detail;
using texts = std::vector<std::string_view>;

TEST(NamePattern, StarsAreAnyCharacters) {
  std::string const name = "h.3.attn.c_attn.weight";
  for (auto const* pattern : {"h.3.attn.c_attn.weight", "*", "**", "h.*.attn.*", "*.weight", "h*",
                              "*c_attn*", "h.*.*.*.weight", "*t", "h.3.attn.c_attn.weight*"})
    EXPECT_TRUE(matches(pattern, name)) << pattern;
  for (auto const* pattern : {"", "h", "h.3.attn", "*.bias", "attn*", "*.attn", "h.*.mlp.*",
                              "h.?.attn.*", "h.3.attn.c_attn.weight.*", "**x"})
    EXPECT_FALSE(matches(pattern, name)) << pattern;
  EXPECT_TRUE(matches("", ""));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("a*b*ab", "aabxbab"));
  EXPECT_TRUE(matches_any({"x", "h.*"}, name));
  EXPECT_FALSE(matches_any({"x", "y.*"}, name));
  EXPECT_FALSE(matches_any({}, name));
}

TEST(NamePattern, ReturnsTheTextsOfStars) {
  auto const parts_of = [](std::string_view pattern, std::string_view name) {
    texts parts{"from before"};
    EXPECT_TRUE(matches(pattern, name, &parts)) << pattern;
    EXPECT_EQ(filled_in(pattern, parts), name) << pattern;
    return parts;
  };
  EXPECT_EQ(parts_of("h.*.attn.*.weight", "h.13.attn.q.weight"), (texts{"13", "q"}));
  EXPECT_EQ(parts_of("*.weight", "weight.weight.weight"), (texts{"weight.weight"}));
  EXPECT_EQ(parts_of("*.*.*", "a.b.c.d"), (texts{"a", "b", "c.d"}));
  EXPECT_EQ(parts_of("h*", "h"), (texts{""}));
  EXPECT_EQ(parts_of("h**", "h.1"), (texts{"", ".1"}));
  EXPECT_EQ(parts_of("***", ""), (texts{"", "", ""}));
  EXPECT_EQ(parts_of("a*b*ab", "aabxbab"), (texts{"a", "xb"}));
  EXPECT_EQ(parts_of("plain", "plain"), texts{});
  EXPECT_EQ(filled_in("model.layers.*.x.*", {"3", "bias"}), "model.layers.3.x.bias");
}

}  // namespace
