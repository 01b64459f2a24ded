// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/testing/communicator_channel_laws.hpp"

namespace plait::testing::detail {

PLAIT_DECL std::vector<channel_end> channel_ends(int me, int size) {
  std::vector<channel_end> out;
  for (int first = 0; first < (size == 2 ? 1 : size); ++first) {
    int const second = (first + 1) % size;
    if (me != first && me != second) continue;
    for (bool const is_forth : {true, false}) {
      int const from = is_forth ? first : second, to = is_forth ? second : first;
      bool const sends = me == from;
      out.push_back({sends ? to : from, sends, channel_of(me, sends ? to : from, size, sends),
                     channel_of(from, to, size, true), is_forth});
    }
  }
  return out;
}

}  // namespace plait::testing::detail
