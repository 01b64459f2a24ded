// SPDX-License-Identifier: Apache-2.0
#include "plait/core/stochastic_rounding.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace {

using plait::bfloat16;
using plait::ext::round_stochastically;

constexpr std::uint32_t words = 1u << 16;

// example-begin quarter
// The neighbours of 1 + 2^-9 are 1 and 1 + 2^-7.
static_assert(plait::ext::round_stochastically(1 + 0x1p-9f, 0xBFFF) == 1);
static_assert(plait::ext::round_stochastically(1 + 0x1p-9f, 0xC000) == 1 + 0x1p-7f);
// example-end

TEST(StochasticRounding, LeavesEachBfloat16AsItIs) {
  for (std::uint32_t bits = 0; bits < words; ++bits) {
    bfloat16 value;
    value.bits = static_cast<std::uint16_t>(bits);
    for (std::uint32_t const random : {0u, 1u, 0x8000u, 0xFFFFu}) {
      float const rounded = round_stochastically(value, random);
      if (std::isnan(static_cast<float>(value))) EXPECT_TRUE(std::isnan(rounded)) << bits;
      else EXPECT_EQ(rounded, static_cast<float>(value)) << bits;
    }
  }
}

// Over all random words, the sum of the results is exact in double.
TEST(StochasticRounding, HasTheValueAsItsMean) {
  for (float const value :
       {1.0f, 1.001f, -3.14159265f, 1e-3f, -7.7e20f, 1e-38f, 1.3e-40f, 123456.789f, 0.0f}) {
    double sum = 0;
    bfloat16 const nearest(value);
    for (std::uint32_t random = 0; random < words; ++random) {
      float const rounded = round_stochastically(value, random);
      // The result is a neighbour of the value.
      ASSERT_LE(std::abs(double{rounded} - double{value}),
                std::max(std::abs(double{value}) / 128, 0x1p-133));
      sum += rounded;
    }
    EXPECT_EQ(sum / words, value);
    EXPECT_LE(std::abs(double{nearest} - double{value}),
              std::max(std::abs(double{value}) / 256, 0x1p-134));
  }
}

TEST(StochasticRounding, KeepsFiniteValuesFiniteAndOthersAsTheyAre) {
  using limits = std::numeric_limits<float>;
  constexpr float largest = 0x1.FEp127f;  // the largest bfloat16
  for (std::uint32_t const random : {0u, 0x8000u, 0xFFFFu}) {
    EXPECT_EQ(round_stochastically(limits::max(), random), largest);
    EXPECT_EQ(round_stochastically(-limits::max(), random), -largest);
    EXPECT_EQ(round_stochastically(limits::infinity(), random), limits::infinity());
    EXPECT_EQ(round_stochastically(-limits::infinity(), random), -limits::infinity());
    EXPECT_TRUE(std::isnan(round_stochastically(limits::quiet_NaN(), random)));
    // All bits of this NaN that say what it is are in the half that is dropped.
    auto const other = __builtin_bit_cast(float, 0x7F800001u);
    EXPECT_TRUE(std::isnan(round_stochastically(other, random)));
  }
}

}  // namespace
