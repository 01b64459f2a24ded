// SPDX-License-Identifier: Apache-2.0
// test: alone
#include "testing/time_limit.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <thread>

namespace {

using namespace std::chrono_literals;
using plait_test::time_limit;

testing::TestInfo const& this_test() {
  return *testing::UnitTest::GetInstance()->current_test_info();
}

TEST(TimeLimitDeathTest, ATestThatHangsIsNamed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        time_limit limit(1s);
        limit.OnTestStart(this_test());
        std::this_thread::sleep_for(60s);
      },
      testing::ExitedWithCode(3), "TimeLimitDeathTest.ATestThatHangsIsNamed has not ended in 1 s");
}

TEST(TimeLimitDeathTest, NothingIsEndedBetweenTests) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        time_limit limit(0s);
        std::this_thread::sleep_for(200ms);
        time_limit other(1s);
        other.OnTestStart(this_test());
        other.OnTestEnd(this_test());
        std::this_thread::sleep_for(1500ms);
        std::_Exit(0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
