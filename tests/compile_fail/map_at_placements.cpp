// SPDX-License-Identifier: Apache-2.0
// first: ops.map_at(f, y, views...): each view must have the placement of y, or be replicate if y
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::ext::operations<plait::threads::rank_type>;

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::placement of_table = plait::invariant;
#else
constexpr plait::placement of_table = plait::replicate;
#endif

struct by_position {
  double operator()(plait::ext::element_place const& at, auto x, auto table) const {
    return x[at.column] * table[0];
  }
};

void forward(operations& ops, view<float const, plait::shard<0>> x, view<float const, of_table> t,
             view<float, plait::shard<0>> y) {
  ops.map_at(by_position{}, y, x, t);
}

int main() {}
