// SPDX-License-Identifier: Apache-2.0
#include "plait/nn/product.hpp"

#include <gtest/gtest.h>

#include "plait/testing/check_layer.hpp"

namespace {

using namespace plait;
using namespace plait::ext;

TEST(Product, KeepsTheLaws) {
  auto const report = plait::testing::check_layer<nn::product<12>>();
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_EQ(report.checked.size(), 1u + 2 + 4 + 4);
}

}  // namespace
