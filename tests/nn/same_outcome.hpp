// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "nn/train_once.hpp"

namespace nn_testing {

/// Equal up to 1e-11 of the loss and of the largest element of each gradient: sums of some hundred
/// terms in double, in another order.
inline void expect_same(outcome const& expected, outcome const& got, std::string const& plan) {
  EXPECT_EQ(got.labels, expected.labels) << plan;
  EXPECT_NEAR(got.loss, expected.loss, 1e-11 * std::max(1e-3, std::abs(expected.loss))) << plan;
  ASSERT_EQ(got.gradients.size(), expected.gradients.size()) << plan;
  for (auto const& [name, right] : expected.gradients) {
    auto const found = got.gradients.find(name);
    ASSERT_TRUE(found != got.gradients.end()) << plan << ": " << name;
    ASSERT_EQ(found->second.size(), right.size()) << plan << ": " << name;
    double largest = 1e-6;
    for (double const value : right) largest = std::max(largest, std::abs(value));
    for (std::size_t i = 0; i < right.size(); ++i)
      ASSERT_NEAR(found->second[i], right[i], 1e-11 * largest) << plan << ": " << name << " " << i;
  }
}

}  // namespace nn_testing
