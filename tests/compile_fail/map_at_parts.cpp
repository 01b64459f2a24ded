// SPDX-License-Identifier: Apache-2.0
// first: ops.map_at(f, y, views...): y or a view is cut in several parts
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::ext::operations<plait::threads::rank_type>;

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::placement at = plait::shard<1, 3>;  // query, key and value side by side
#else
constexpr plait::placement at = plait::shard<1>;
#endif

struct twice {
  static constexpr std::size_t block = 1;
  double operator()(plait::ext::element_place const& at, auto x) const { return 2 * x[at.column]; }
};

void forward(operations& ops, view<float const, at> x, view<float, at> y) {
  ops.map_at(twice{}, y, x);
}

int main() {}
