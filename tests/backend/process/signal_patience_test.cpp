// SPDX-License-Identifier: Apache-2.0
// Tests when a wait for other ranks ends after a signal.
#include "plait/backend/process/signal_patience.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdint>

#include "plait/core/caught_signal.hpp"

namespace {

using namespace std::chrono_literals;
using plait::detail::caught_signal;
using plait::detail::signal_patience;

class SignalPatience : public ::testing::Test {
 protected:
  ~SignalPatience() override { caught_signal::number() = 0; }
  int look(std::uint64_t wait, std::chrono::milliseconds at) {
    return patience.look(wait, signal_patience::clock::time_point{} + 1h + at);
  }
  signal_patience patience;
};

TEST_F(SignalPatience, AWaitWithinAStepEndsTwoSecondsAfterTheSignal) {
  caught_signal::ends_waits const step;
  EXPECT_EQ(look(1, 0ms), 0);
  EXPECT_EQ(look(1, 500ms), 0);
  caught_signal::number() = SIGTERM;
  EXPECT_EQ(look(1, 1000ms), 0);
  EXPECT_EQ(look(1, 2499ms), 0);
  EXPECT_EQ(look(1, 2500ms), SIGTERM);
}

TEST_F(SignalPatience, CountsFromTheBeginningOfAWaitAfterTheSignal) {
  caught_signal::ends_waits const step;
  caught_signal::number() = SIGINT;
  EXPECT_EQ(look(1, 0ms), 0);
  EXPECT_EQ(look(1, 1900ms), 0);
  EXPECT_EQ(look(2, 2100ms), 0);
  EXPECT_EQ(look(2, 4099ms), 0);
  EXPECT_EQ(look(2, 4100ms), SIGINT);
}

// A job whose ranks wait for each other for seconds in each step completes the step.
TEST_F(SignalPatience, IsTwiceTheLongestWaitSoFar) {
  caught_signal::ends_waits const step;
  EXPECT_EQ(look(1, 0s), 0);
  EXPECT_EQ(look(1, 5s), 0);
  caught_signal::number() = SIGTERM;
  EXPECT_EQ(look(2, 6s), 0);
  EXPECT_EQ(look(2, 15s), 0);
  EXPECT_EQ(look(2, 16s), SIGTERM);
  patience.forget();
  EXPECT_EQ(look(3, 20s), 0);
  EXPECT_EQ(look(3, 22s), SIGTERM);
}

// A pause of ranks for a known reason is not a measure of a step.
TEST_F(SignalPatience, DoesNotGrowWithTimeThatDoesNotCount) {
  caught_signal::ends_waits const step;
  auto const begin = signal_patience::clock::time_point{} + 1h;
  EXPECT_EQ(look(1, 0s), 0);
  for (int second = 1; second < 60; ++second)
    EXPECT_EQ(patience.look(1, begin + std::chrono::seconds(second), false), 0);
  caught_signal::number() = SIGTERM;
  EXPECT_EQ(patience.look(1, begin + 60'999ms, false), 0);
  EXPECT_EQ(patience.look(1, begin + 61s, false), SIGTERM);
}

// Other ranks may write a checkpoint, or the text at the end.
TEST_F(SignalPatience, WaitsOutsideOfStepsHaveNoEnd) {
  caught_signal::number() = SIGTERM;
  EXPECT_EQ(look(1, 0s), 0);
  EXPECT_EQ(look(1, 100s), 0);
  {
    caught_signal::ends_waits const step;
    EXPECT_EQ(look(2, 100s), 0);
    EXPECT_EQ(look(2, 102s), SIGTERM);
    caught_signal::ends_waits const no_stop(false);
  }
  EXPECT_FALSE(caught_signal::may_end_waits());
  EXPECT_EQ(look(3, 200s), 0);
  EXPECT_EQ(look(3, 300s), 0);
}

}  // namespace
