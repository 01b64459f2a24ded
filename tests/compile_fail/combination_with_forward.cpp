// SPDX-License-Identifier: Apache-2.0
// first: this layer derives from a combination of layers
#include "plait/nn/linear.hpp"
#include "plait/plan/model/outline.hpp"

struct model : plait::sequential<plait::nn::linear<8, 8>, plait::nn::linear<8, 4>> {
#ifdef PLAIT_EXPECT_FAIL
  static void forward(auto& ops, auto l) { ops.copy(l.x, l.y); }
#endif
};

int main() { return plait::planning::make_outline<model>().leaves.size() == 0; }
