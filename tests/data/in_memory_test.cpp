// SPDX-License-Identifier: Apache-2.0
#include "plait/data/in_memory.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace {

TEST(InMemory, SamplesAreRows) {
  plait::in_memory<float> const data({1, 2, 3, 4, 5, 6}, {7, 8, 9}, 2);
  EXPECT_EQ(data.size(), 3u);
  std::array<float, 2> row{};
  std::array<std::int32_t, 1> label{};
  for (std::size_t i = 0; i < 3; ++i) {
    data.inputs(i, row);
    data.targets(i, label);
    EXPECT_EQ(row, (std::array{static_cast<float>(2 * i + 1), static_cast<float>(2 * i + 2)}));
    EXPECT_EQ(label[0], static_cast<std::int32_t>(i + 7));
  }
}

TEST(InMemory, SizesMustFit) {
  using data = plait::in_memory<double>;
  EXPECT_THROW(data({}, {}, 2), plait::input_error);
  EXPECT_THROW(data({}, {1}, 0), plait::input_error);
  EXPECT_THROW(data({1, 2, 3}, {1}, 2), plait::size_mismatch);
  EXPECT_THROW(data({1, 2, 3, 4}, {1}, 2), plait::size_mismatch);
  data const good({1, 2}, {1}, 2);
  std::array<double, 2> row{};
  EXPECT_THROW(good.inputs(1, row), plait::size_mismatch);
  EXPECT_THROW(good.inputs(0, std::span(row).first(1)), plait::size_mismatch);
}

}  // namespace
