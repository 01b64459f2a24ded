// SPDX-License-Identifier: Apache-2.0
#include "plait/schedule/one_forward_one_backward.hpp"

#include <gtest/gtest.h>

#include <string>

namespace {

using schedule = plait::one_forward_one_backward;

std::string letters(std::vector<plait::ext::scheduled_work> const& order) {
  std::string out;
  for (plait::ext::scheduled_work const op : order)
    out += (op.kind == plait::ext::work::forward ? 'F' : 'B') + std::to_string(op.microbatch) + ' ';
  return out;
}

TEST(OneForwardOneBackward, OneStageIsTheSerialRun) {
  EXPECT_EQ(letters(schedule::order(1, 0, 3)), "F0 B0 F1 B1 F2 B2 ");
}

TEST(OneForwardOneBackward, WarmUpShrinksTowardsTheLastStage) {
  EXPECT_EQ(letters(schedule::order(3, 0, 4)), "F0 F1 F2 B0 F3 B1 B2 B3 ");
  EXPECT_EQ(letters(schedule::order(3, 1, 4)), "F0 F1 B0 F2 B1 F3 B2 B3 ");
  EXPECT_EQ(letters(schedule::order(3, 2, 4)), "F0 B0 F1 B1 F2 B2 F3 B3 ");
}

TEST(OneForwardOneBackward, FewerMicrobatchesThanStages) {
  EXPECT_EQ(letters(schedule::order(8, 0, 2)), "F0 F1 B0 B1 ");
  EXPECT_EQ(letters(schedule::order(8, 6, 2)), "F0 F1 B0 B1 ");
  EXPECT_EQ(letters(schedule::order(8, 7, 2)), "F0 B0 F1 B1 ");
  EXPECT_EQ(schedule::peak_activations(8, 0, 2), 2);
}

}  // namespace
