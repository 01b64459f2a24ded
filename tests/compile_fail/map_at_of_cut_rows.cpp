// SPDX-License-Identifier: Apache-2.0
// first: ops.map_at(f, y, views...): y or a view is cut by columns, but f may read the whole row
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::ext::operations<plait::threads::rank_type>;

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::placement at = plait::shard<1>;
#else
constexpr plait::placement at = plait::shard<0>;
#endif

struct from_the_right {
  double operator()(plait::ext::element_place const& at, auto x) const { return x[7 - at.column]; }
};

void forward(operations& ops, view<float const, at> x, view<float, at> y) {
  ops.map_at(from_the_right{}, y, x);
}

int main() {}
