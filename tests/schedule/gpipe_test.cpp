// SPDX-License-Identifier: Apache-2.0
#include "plait/schedule/gpipe.hpp"

#include <gtest/gtest.h>

#include <string>

namespace {

std::string letters(std::vector<plait::ext::scheduled_work> const& order) {
  std::string out;
  for (plait::ext::scheduled_work const op : order)
    out += (op.kind == plait::ext::work::forward ? 'F' : 'B') + std::to_string(op.microbatch) + ' ';
  return out;
}

TEST(Gpipe, AllForwardsThenAllBackwardsOnEveryStage) {
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(letters(plait::gpipe::order(4, stage, 3)), "F0 F1 F2 B0 B1 B2 ");
    EXPECT_EQ(plait::gpipe::peak_activations(4, stage, 3), 3);
  }
}

}  // namespace
