// SPDX-License-Identifier: Apache-2.0
#include "plait/schedule/operation.hpp"

#include <gtest/gtest.h>

namespace {

using plait::work;

constexpr work all_kinds[]{work::forward,         work::backward,
                           work::send_activation, work::receive_activation,
                           work::send_gradient,   work::receive_gradient};

TEST(Operation, TextNamesKindAndMicrobatch) {
  EXPECT_EQ(plait::to_string(plait::scheduled_work{work::send_gradient, 3}), "send_gradient 3");
  for (work const a : all_kinds)
    for (work const b : all_kinds) EXPECT_EQ(plait::to_string(a) == plait::to_string(b), a == b);
}

TEST(Operation, EveryMessageHasTwoEndsAtNeighbours) {
  for (work const kind : all_kinds) {
    if (plait::computes(kind)) continue;
    work const other = plait::other_end(kind);
    EXPECT_NE(other, kind);
    EXPECT_EQ(plait::other_end(other), kind);
    EXPECT_EQ(plait::partner_stage(other, plait::partner_stage(kind, 5)), 5)
        << plait::to_string(kind);
  }
}

TEST(Operation, ActivationsGoForwardAndGradientsBack) {
  EXPECT_EQ(plait::partner_stage(work::send_activation, 2), 3);
  EXPECT_EQ(plait::partner_stage(work::receive_activation, 2), 1);
  EXPECT_EQ(plait::partner_stage(work::send_gradient, 2), 1);
  EXPECT_EQ(plait::partner_stage(work::receive_gradient, 2), 3);
  EXPECT_EQ(plait::other_end(work::send_activation), work::receive_activation);
  EXPECT_EQ(plait::other_end(work::send_gradient), work::receive_gradient);
}

}  // namespace
