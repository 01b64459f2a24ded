// SPDX-License-Identifier: Apache-2.0
#include "plait/core/bfloat16.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

using plait::accumulate_t;

namespace {

plait::bfloat16 of_bits(std::uint32_t bits) {
  return std::bit_cast<plait::bfloat16>(static_cast<std::uint16_t>(bits));
}

}  // namespace

TEST(Bfloat16, EveryValueSurvivesTheWayToFloatAndBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    float const value = of_bits(bits);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(value), bits << 16);
    plait::bfloat16 const back = value;
    if (std::isnan(value)) EXPECT_TRUE(std::isnan(static_cast<float>(back))) << bits;
    else EXPECT_EQ(back.bits, bits);
  }
}

TEST(Bfloat16, RoundsToTheNearestAndTiesToEven) {
  for (std::uint32_t bits = 0; bits < 0x7F80; ++bits) {  // up to the step to infinity
    auto const above = [&](std::uint32_t part) {
      return plait::bfloat16(std::bit_cast<float>((bits << 16) + part)).bits;
    };
    ASSERT_EQ(above(0x7FFF), bits);
    ASSERT_EQ(above(0x8000), bits + bits % 2);
    ASSERT_EQ(above(0x8001), bits + 1);
    ASSERT_EQ(plait::bfloat16(-std::bit_cast<float>((bits << 16) + 0x8001)).bits,
              0x8000 + bits + 1);
  }
}

TEST(Bfloat16, NanStaysNanAlsoWithLowBitsOnly) {
  for (std::uint32_t const bits : {0x7F800001u, 0xFF800001u, 0x7FFFFFFFu, 0xFFFFFFFFu})
    EXPECT_TRUE(std::isnan(static_cast<float>(plait::bfloat16(std::bit_cast<float>(bits)))))
        << bits;
  EXPECT_TRUE(std::isinf(static_cast<float>(plait::bfloat16(std::numeric_limits<float>::max()))));
}

TEST(Bfloat16, ArithmeticIsInFloat) {
  static_assert(std::is_same_v<decltype(plait::bfloat16{1} * plait::bfloat16{2}), float>);
  static_assert(std::is_same_v<accumulate_t<plait::bfloat16>, float>);
  static_assert(std::is_same_v<accumulate_t<double>, double>);
  static_assert(static_cast<float>(plait::bfloat16{3} * plait::bfloat16(0.5)) ==
                1.5f);                                   // at compile time
  plait::bfloat16 x = plait::bfloat16{1} + 0.00390625f;  // half a step: to even
  EXPECT_EQ(x, 1.0f);
  x = x + 0.0078125f;
  EXPECT_EQ(x.bits, 0x3F81);
}
