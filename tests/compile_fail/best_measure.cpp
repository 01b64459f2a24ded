// SPDX-License-Identifier: Apache-2.0
// first: checkpoint_options::best: this measure does not declare which of its values are
#include "plait/checkpoint/checkpoint_options.hpp"

#ifdef PLAIT_EXPECT_FAIL
using by = plait::measures::confusion_matrix<3>;
#else
using by = plait::measures::accuracy;
#endif

plait::checkpoint_options with{.folder = "run", .best = by{}};

int main() {}
