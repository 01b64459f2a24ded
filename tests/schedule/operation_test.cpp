// SPDX-License-Identifier: Apache-2.0
#include "plait/schedule/operation.hpp"

#include <gtest/gtest.h>

namespace {

using plait::ext::work;

constexpr work all_kinds[]{
    work::forward,       work::backward,         work::send_activation, work::receive_activation,
    work::send_gradient, work::receive_gradient, work::backward_input,  work::backward_parameters};

TEST(Operation, TextNamesKindAndMicrobatch) {
  EXPECT_EQ(plait::ext::to_string(plait::ext::scheduled_work{work::send_gradient, 3}),
            "send_gradient 3");
  for (work const a : all_kinds)
    for (plait::ext::work const b : all_kinds)
      EXPECT_EQ(plait::ext::to_string(a) == plait::ext::to_string(b), a == b);
}

TEST(Operation, EveryMessageHasTwoEndsAtNeighbours) {
  for (work const kind : all_kinds) {
    if (plait::ext::computes(kind)) continue;
    work const other = plait::ext::other_end(kind);
    EXPECT_NE(other, kind);
    EXPECT_EQ(plait::ext::other_end(other), kind);
    plait::ext::chunk_place const here{2, 1};
    EXPECT_EQ(plait::ext::partner_of(other, plait::ext::partner_of(kind, here, 4), 4), here)
        << plait::ext::to_string(kind);
  }
}

TEST(Operation, ActivationsGoForwardAndGradientsBack) {
  using place = plait::ext::chunk_place;
  EXPECT_EQ(plait::ext::partner_of(work::send_activation, {2, 0}, 4), (place{3, 0}));
  EXPECT_EQ(plait::ext::partner_of(work::receive_activation, {2, 0}, 4), (place{1, 0}));
  EXPECT_EQ(plait::ext::partner_of(work::send_gradient, {2, 0}, 4), (place{1, 0}));
  EXPECT_EQ(plait::ext::partner_of(work::receive_gradient, {2, 0}, 4), (place{3, 0}));
  // The chunks of a model go round the stages.
  EXPECT_EQ(plait::ext::partner_of(work::send_activation, {3, 0}, 4), (place{0, 1}));
  EXPECT_EQ(plait::ext::partner_of(work::receive_activation, {0, 1}, 4), (place{3, 0}));
  EXPECT_EQ(plait::ext::partner_of(work::receive_activation, {0, 0}, 4).stage, -1);
  EXPECT_EQ(plait::ext::other_end(work::send_activation), work::receive_activation);
  EXPECT_EQ(plait::ext::other_end(work::send_gradient), work::receive_gradient);
}

}  // namespace
