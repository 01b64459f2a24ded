// SPDX-License-Identifier: Apache-2.0
// expect: Correct order, peak_activations or chunks of the schedule
// expect: no_chunk
#include "plait/schedule/gpipe.hpp"
#include "plait/schedule/proof.hpp"

struct second_chunk : plait::gpipe {
#ifdef PLAIT_EXPECT_FAIL
  static constexpr std::vector<plait::ext::scheduled_work> order(int stages, int stage,
                                                                 int microbatches) {
    auto out = plait::gpipe::order(stages, stage, microbatches);
    for (auto& one : out) one.chunk = 1;
    return out;
  }
#endif
};

int main() { plait::planning::require_proven_up_to<second_chunk, 2, 3>(); }
