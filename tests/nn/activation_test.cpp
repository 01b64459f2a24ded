// SPDX-License-Identifier: Apache-2.0
// test: timeout=300
#include "plait/nn/activation.hpp"

#include <gtest/gtest.h>

#include "plait/testing/check_layer.hpp"

namespace {

using namespace plait;
using namespace plait::ext;

TEST(Activation, ReluKeepsTheLaws) {
  auto const report = plait::testing::check_layer<nn::relu<12>>();
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_EQ(report.checked.size(), 1u + 3 + 5 + 5);
}

TEST(Activation, GeluKeepsTheLaws) {
  auto const report = plait::testing::check_layer<nn::gelu<12>>();
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_EQ(report.checked.size(), 1u + 3 + 5 + 5);
}

}  // namespace
