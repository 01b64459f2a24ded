// SPDX-License-Identifier: Apache-2.0
// first: ops.map_at(f, y, views...): f cannot be called with a place and one row of each view
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::ext::operations<plait::threads::rank_type>;

struct sum {
  double operator()(plait::ext::element_place const& at, auto a, auto b) const {
    return a[at.column] + b[at.column];
  }
};

void forward(operations& ops, view<float const> x, view<float> y) {
#ifdef PLAIT_EXPECT_FAIL
  ops.map_at(sum{}, y, x);
#else
  ops.map_at(sum{}, y, x, x);
#endif
}

int main() {}
