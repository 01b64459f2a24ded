// SPDX-License-Identifier: Apache-2.0
// test: timeout=300
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "plait/nn/attention.hpp"
#include "plait/testing/check_layer.hpp"

namespace {

using namespace plait;
using namespace plait::ext;

template <std::size_t KeyValueHeads, nn::attention_options Options = nn::attention_options{}>
using twelve_heads = nn::attention<12, KeyValueHeads, 3, 12, Options>;

/// The forms that work on 1, 2, 3 and 4 ranks, such as "wh wh w- wg".
template <class L>
std::string forms_by_ranks() {
  std::string out;
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (int i = 0; i < leaf_of<L>.forms.size(); ++i)
      if (auto const& form = leaf_of<L>.forms[i]; form.divides(ranks))
        out += form.label.text().front();
    out += ' ';
  }
  return out;
}

TEST(GroupedAttention, HasAFormWhereRanksDivideOrAreAMultiple) {
  EXPECT_EQ(forms_by_ranks<twelve_heads<12>>(), "wh wh wh wh ");
  EXPECT_EQ(forms_by_ranks<twelve_heads<6>>(), "wh wh wh w ");
  EXPECT_EQ(forms_by_ranks<twelve_heads<4>>(), "wh wh w whg ");
  EXPECT_EQ(forms_by_ranks<twelve_heads<2>>(), "wh whg w wg ");
  EXPECT_EQ(forms_by_ranks<twelve_heads<1>>(), "wg wg wg wg ");
}

template <class L>
void keeps_the_laws(std::size_t runs) {
  auto const report = plait::testing::check_layer<L>();
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_EQ(report.checked.size(), runs);
}

// On one rank and on those above; the whole form on 1 and 2, and first of all alone.
TEST(GroupedAttention, KeepsTheLawsOfEqualHeads) {
  keeps_the_laws<twelve_heads<12, {.causal = false}>>(1 + 2 + 4);
}
// The groups on six ranks, which are the fewest.
TEST(GroupedAttention, KeepsTheLawsOfSixKeyValueHeads) {
  keeps_the_laws<twelve_heads<6, {.window = 5}>>(1 + 2 + 3 + 1);
}
TEST(GroupedAttention, KeepsTheLawsOfFourKeyValueHeads) {
  keeps_the_laws<twelve_heads<4>>(1 + 2 + 3 + 1);
}
TEST(GroupedAttention, KeepsTheLawsOfTwoKeyValueHeads) {
  keeps_the_laws<twelve_heads<2, {.causal = false}>>(1 + 2 + 2 + 2);
}
TEST(GroupedAttention, KeepsTheLawsOfOneKeyValueHead) {
  keeps_the_laws<twelve_heads<1, {.window = 12}>>(1 + 2 + 4);
}

}  // namespace
