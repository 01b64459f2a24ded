// SPDX-License-Identifier: Apache-2.0
#include "plait/schedule/operation.hpp"

#include <gtest/gtest.h>

namespace {

using plait::ext::work;
using placement = plait::ext::chunk_placement;

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
    for (auto const how : {placement::loop, placement::wave})
      for (int chunk = 1; chunk < 3; ++chunk) {
        plait::ext::chunk_place const here{2, chunk};
        auto const there = plait::ext::partner_of(kind, here, 4, how);
        EXPECT_EQ(plait::ext::partner_of(other, there, 4, how), here)
            << plait::ext::to_string(kind);
      }
  }
}

TEST(Operation, ActivationsGoForwardAndGradientsBack) {
  using place = plait::ext::chunk_place;
  auto const along = [](work kind, place at, placement how = placement::loop) {
    return plait::ext::partner_of(kind, at, 4, how);
  };
  EXPECT_EQ(along(work::send_activation, {2, 0}), (place{3, 0}));
  EXPECT_EQ(along(work::receive_activation, {2, 0}), (place{1, 0}));
  EXPECT_EQ(along(work::send_gradient, {2, 0}), (place{1, 0}));
  EXPECT_EQ(along(work::receive_gradient, {2, 0}), (place{3, 0}));
  // The chunks of a model go round the stages,
  EXPECT_EQ(along(work::send_activation, {3, 0}), (place{0, 1}));
  EXPECT_EQ(along(work::receive_activation, {0, 1}), (place{3, 0}));
  EXPECT_EQ(along(work::receive_activation, {0, 0}).stage, -1);
  // or forth and back: two that follow each other may be on one stage.
  EXPECT_EQ(along(work::send_activation, {3, 0}, placement::wave), (place{3, 1}));
  EXPECT_EQ(along(work::send_activation, {3, 1}, placement::wave), (place{2, 1}));
  EXPECT_EQ(along(work::send_activation, {0, 1}, placement::wave), (place{0, 2}));
  EXPECT_EQ(along(work::send_gradient, {3, 1}, placement::wave), (place{3, 0}));
  for (int number = 0; number < 12; ++number)
    for (auto const how : {placement::loop, placement::wave})
      EXPECT_EQ(plait::ext::number_of_chunk(plait::ext::place_of_chunk(number, 4, how), 4, how),
                number);
  EXPECT_EQ(plait::ext::other_end(work::send_activation), work::receive_activation);
  EXPECT_EQ(plait::ext::other_end(work::send_gradient), work::receive_gradient);
}

}  // namespace
