// SPDX-License-Identifier: Apache-2.0
#include "plait/layer/parameter.hpp"

#include <gtest/gtest.h>

namespace {

using namespace plait;
using namespace plait::ext;

TEST(Parameter, AMatrixHasRowsAndColumns) {
  constexpr auto info = info_of<parameter<"weight", extents<6, 8>, normal(0.02)>>();
  EXPECT_EQ(info.rank, 2);
  EXPECT_EQ(info.rows, 6u);
  EXPECT_EQ(info.columns, 8u);
  EXPECT_EQ(info.count(), 48u);
  EXPECT_EQ(info.length(0), 6u);
  EXPECT_EQ(info.length(1), 8u);
}

TEST(Parameter, AVectorIsOneRow) {
  constexpr auto info = info_of<parameter<"bias", extents<8>>>();
  EXPECT_EQ(info.rank, 1);
  EXPECT_EQ(info.rows, 1u);
  EXPECT_EQ(info.columns, 8u);
  EXPECT_EQ(info.length(0), 8u);
}

TEST(Parameter, PaddingIsTheEndOfTheFirstDimension) {
  constexpr auto matrix = info_of<parameter<"weight", extents<6, 8>, normal(0.02), 2>>();
  EXPECT_EQ(matrix.count(), 48u);
  EXPECT_EQ(matrix.padding, 2u);
  EXPECT_EQ(matrix.unpadded().rows, 4u);
  EXPECT_EQ(matrix.unpadded().columns, 8u);
  EXPECT_EQ(matrix.unpadded().padding, 0u);
  constexpr auto vector = info_of<parameter<"bias", extents<8>, constant(0.0), 3>>();
  EXPECT_EQ(vector.count(), 8u);
  EXPECT_EQ(vector.unpadded().rows, 1u);
  EXPECT_EQ(vector.unpadded().columns, 5u);
}

TEST(Parameter, StartsAtZeroUnlessSaidOtherwise) {
  using bias = parameter<"bias", extents<8>>;
  EXPECT_EQ(bias::initial.how, initializer::kind::constant);
  EXPECT_EQ(bias::initial.number(), 0.0);
}

TEST(Parameter, InitialisersKeepNineDecimals) {
  EXPECT_DOUBLE_EQ(constant(1.0).number(), 1.0);
  EXPECT_DOUBLE_EQ(constant(-0.125).number(), -0.125);
  EXPECT_DOUBLE_EQ(normal(0.02).number(), 0.02);
  EXPECT_NEAR(normal(0.0028867513459481).number(), 0.0028867513459481, 0.5e-9);
  EXPECT_EQ(normal(0.02).how, initializer::kind::normal);
}

TEST(Parameter, TheTypeIsTheKeyInTheList) {
  using a = parameter<"a", extents<2>>;
  using b = parameter<"b", extents<2>>;
  using list = parameter_list<a, b>;
  static_assert(detail::parameter_index<list, a> == 0);
  static_assert(detail::parameter_index<list, b> == 1);
  static_assert(detail::parameter_index<list, parameter<"c", extents<2>>> == -1);
  EXPECT_EQ((detail::parameter_index<parameter_list<>, a>), -1);
}

}  // namespace
