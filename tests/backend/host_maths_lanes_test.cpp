// SPDX-License-Identifier: Apache-2.0
#include "plait/backend/host/maths/lanes.hpp"

#include <limits>

#include "backend/host_maths_testing.hpp"

using namespace host_maths_testing;
using plait::host_maths::choose;
using plait::host_maths::lane_max;
using plait::host_maths::lane_sum;

TEST(Lanes, SumAndMaximumOfEveryLength) {
  auto const x = values<float>(100, 1);
  double sum = 0;
  float largest = -2;
  for (std::size_t n = 0; n <= x.size(); ++n) {
    auto const term = [&](std::size_t i) { return x[i]; };
    EXPECT_NEAR(static_cast<double>(lane_sum<float>(n, term)), sum, 1e-5) << n;
    EXPECT_EQ(lane_max(n, -2.0f, term), largest) << n;
    if (n == x.size()) break;
    sum += static_cast<double>(x[n]);
    largest = std::max(largest, x[n]);
  }
}

// Checks the documented order of additions, which no instruction set may change. 1 added to 2^24 is
// lost in float, so another order gives another sum.
TEST(Lanes, OrderOfAdditions) {
  std::vector<float> x(48, 1.0f);
  x[3] = 16777216.0f;  // lane 3: 2^24 + 1 + 1 stays 2^24; the other 15 lanes hold 3
  float lanes[16];
  for (std::size_t l = 0; l < 16; ++l) lanes[l] = x[l] + x[l + 16] + x[l + 32];
  for (std::size_t half = 8; half > 0; half /= 2)
    for (std::size_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  EXPECT_EQ(lane_sum<float>(48, [&](std::size_t i) { return x[i]; }), lanes[0]);
}

TEST(Lanes, MaximumSkipsNan) {
  double const nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> const x = {1, nan, 3, 2};
  EXPECT_EQ(lane_max(x.size(), -1.0, [&](std::size_t i) { return x[i]; }), 3);
}

TEST(Lanes, ChooseTakesOne) {
  EXPECT_EQ(choose(true, 1.5f, -2.5f), 1.5f);
  EXPECT_EQ(choose(false, 1.5f, -2.5f), -2.5f);
  EXPECT_EQ(choose(true, 1.5, -2.5), 1.5);
  EXPECT_EQ(choose(false, 1.5, -2.5), -2.5);
}
