// SPDX-License-Identifier: Apache-2.0
// expect: ops.map(f, a, b, y): f is linear in its last operand only (is_linear_in_last) and both a
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::operations<plait::threads::rank_type>;

struct scaled {
  static constexpr bool is_linear_in_last = true;
  float operator()(float factor, float x) const { return factor * x; }
};

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::placement of_factor = plait::partial;
#else
constexpr plait::placement of_factor = plait::replicate;
#endif

void forward(operations& ops, view<float const, of_factor> factor,
             view<float const, plait::partial> x, view<float, plait::partial> y) {
  ops.map(scaled{}, factor, x, y);
}

int main() {}
