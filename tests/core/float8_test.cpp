// SPDX-License-Identifier: Apache-2.0
#include "plait/core/float8.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace {

using plait::float8;

/// Returns the value of a code by the definition of the format.
double value_of(unsigned code) {
  int const exponent = int(code >> 3 & 15u), fraction = int(code & 7u);
  double const size =
      exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8.0 + fraction, exponent - 7 - 3);
  return (code & 0x80u) != 0 ? -size : size;
}
float8 of_bits(unsigned code) {
  float8 out;
  out.bits = static_cast<std::uint8_t>(code);
  return out;
}
bool is_nan(unsigned code) { return (code & 0x7Fu) == 0x7Fu; }

TEST(Float8, EachCodeHasItsValueAndIsItsOwnRounding) {
  for (unsigned code = 0; code < 256; ++code) {
    float const value = of_bits(code);
    if (is_nan(code)) {
      EXPECT_TRUE(std::isnan(value)) << code;
      EXPECT_TRUE(is_nan(float8(value).bits));
    } else {
      EXPECT_EQ(double(value), value_of(code)) << code;
      EXPECT_EQ(std::signbit(value), code >= 128) << code;
      EXPECT_EQ(float8(value).bits, code);
    }
  }
}

/// Returns the nearest code, and of two equally near codes the even one.
unsigned nearest(float x) {
  unsigned best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (unsigned code = 0; code < 127; ++code) {
    double const distance = std::abs(std::abs(double(x)) - value_of(code));
    if (distance < least || (distance == least && code % 2 == 0)) least = distance, best = code;
  }
  return best | (std::signbit(x) ? 0x80u : 0u);
}

TEST(Float8, OtherValuesAreRoundedToTheNearest) {
  auto const expect = [](float x) { EXPECT_EQ(float8(x).bits, nearest(x)) << x; };
  std::mt19937 random(3);
  std::uniform_real_distribution<float> mantissa(-2, 2);
  for (int i = 0; i < 20000; ++i) expect(std::ldexp(mantissa(random), int(random() % 24) - 14));
  for (unsigned code = 0; code + 1 < 127; ++code) {  // halves, and their neighbours
    auto const half = static_cast<float>((value_of(code) + value_of(code + 1)) / 2);
    for (float const x : {half, std::nextafter(half, 0.0f), std::nextafter(half, 1e9f)})
      expect(x), expect(-x);
  }
  for (float const x : {460.0f, 1e30f, std::numeric_limits<float>::infinity(), 1e-30f,
                        std::numeric_limits<float>::denorm_min()})
    expect(x), expect(-x);
}

}  // namespace
