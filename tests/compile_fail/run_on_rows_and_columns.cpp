// SPDX-License-Identifier: Apache-2.0
// expect: ops.run(kernel, views...): the views are not placed alike; beside views cut by rows, what
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::operations<plait::threads::rank_type>;

/// y = x^T: the block of the rows of x is a block of the columns of y.
struct transpose {
#ifndef PLAIT_EXPECT_FAIL
  static constexpr bool any_placement = true;
#endif
  void operator()(auto const&, auto x, auto y) const {
    for (std::size_t r = 0; r < x.rows; ++r)
      for (std::size_t c = 0; c < x.columns; ++c)
        y.data[c * y.columns + r] = x.data[r * x.columns + c];
  }
};

void forward(operations& ops, view<float const, plait::shard<0>> x,
             view<float, plait::shard<1>> y) {
  ops.run(transpose{}, x, y);
}

int main() {}
