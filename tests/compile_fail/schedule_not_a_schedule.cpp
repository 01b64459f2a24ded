// SPDX-License-Identifier: Apache-2.0
// first: Schedule is not a schedule; it needs concept_tag = plait::ext::schedule_tag
#include "plait/schedule/gpipe.hpp"
#include "plait/schedule/lowering.hpp"

struct untagged : plait::gpipe {
#ifdef PLAIT_EXPECT_FAIL
  using concept_tag = void;
#else
  using concept_tag = plait::ext::schedule_tag;
#endif
};

int main() { return plait::planning::training_timetable<untagged>(2, 4).stages.empty(); }
