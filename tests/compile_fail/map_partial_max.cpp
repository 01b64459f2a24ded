// SPDX-License-Identifier: Apache-2.0
// expect: ops.map(f, x, y): x or y is partial_max, and f of a maximum is not the maximum of f
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::operations<plait::threads::rank_type>;

struct negated {
  static constexpr bool is_linear = true;
  float operator()(float x) const { return -x; }
};

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::placement at = plait::partial_max;
#else
constexpr plait::placement at = plait::partial;
#endif

void forward(operations& ops, view<float const, at> x, view<float, at> y) {
  ops.map(negated{}, x, y);
}

int main() {}
