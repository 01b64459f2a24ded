// SPDX-License-Identifier: Apache-2.0
// first: pipeline<Ranks, Schedule, Cuts>: Cuts is neither balanced nor cut_at<Units...>
#include "plait/policy/policies.hpp"
#include "plait/schedule/gpipe.hpp"

#ifdef PLAIT_EXPECT_FAIL
using chosen = plait::pipeline<2, plait::gpipe, plait::serial>;
#else
using chosen = plait::pipeline<2, plait::gpipe, plait::cut_at<3>>;
#endif

int main() { return chosen::ranks == 0; }
