// SPDX-License-Identifier: Apache-2.0
// first: ops.rows(f, ...): f reads whole rows, and a matrix that is cut by columns or partial has
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::ext::operations<plait::threads::rank_type>;

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::placement at = plait::shard<1>;
#else
constexpr plait::placement at = plait::shard<0>;
#endif

struct largest_to_front {
  void operator()(std::size_t columns, float* row) const {
    for (std::size_t i = 1; i < columns; ++i)
      if (row[i] > row[0]) row[0] = row[i];
  }
};

void forward(operations& ops, view<float, at> x) { ops.rows(largest_to_front{}, x); }

int main() {}
