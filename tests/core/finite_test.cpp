// SPDX-License-Identifier: Apache-2.0
#include "plait/core/finite.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <span>
#include <vector>

#include "plait/core/bfloat16.hpp"

namespace {

template <class T>
std::string checked(std::vector<T> const& values) {
  return plait::ext::not_finite("a\nb", std::span<T const>(values));
}

TEST(Finite, TheFirstWrongValueIsNamed) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(checked<double>({1, -infinity, infinity}), "tensor 'a\\nb' holds -inf at place 1 of 3");
  EXPECT_EQ(checked<float>({std::numeric_limits<float>::quiet_NaN()}),
            "tensor 'a\\nb' holds nan at place 0 of 1");
  EXPECT_EQ(checked<plait::bfloat16>({plait::bfloat16(1.0f), plait::bfloat16(float(infinity))}),
            "tensor 'a\\nb' holds inf at place 1 of 2");
}

TEST(Finite, FiniteValuesArePassed) {
  EXPECT_EQ(checked<double>({}), "");
  EXPECT_EQ(checked<double>({0, -0.0, std::numeric_limits<double>::max(),
                             std::numeric_limits<double>::denorm_min()}),
            "");
}

}  // namespace
