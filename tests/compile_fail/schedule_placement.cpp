// SPDX-License-Identifier: Apache-2.0
// first: schedule: it has several chunks on each stage but does not declare how chunks are assigned
#include "plait/schedule/interleaved.hpp"
#include "plait/schedule/lowering.hpp"

struct chunks_in_line : plait::interleaved<2> {
#ifdef PLAIT_EXPECT_FAIL
  static constexpr auto placement = plait::ext::chunk_placement::line;
#endif
};

int main() { return plait::planning::training_timetable<chunks_in_line>(2, 4).stages.empty(); }
