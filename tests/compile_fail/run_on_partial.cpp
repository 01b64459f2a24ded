// SPDX-License-Identifier: Apache-2.0
// expect: ops.run(kernel, views...): a view is partial (a sum still to be made) and the kernel is
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::operations<plait::threads::rank_type>;

struct twice {
#ifndef PLAIT_EXPECT_FAIL
  static constexpr bool is_linear = true;
#endif
  void operator()(auto const&, auto x, auto y) const {
    for (std::size_t i = 0; i < x.count(); ++i) y.data[i] = 2 * x.data[i];
  }
};

void forward(operations& ops, view<float const, plait::partial> x, view<float, plait::partial> y) {
  ops.run(twice{}, x, y);
}

int main() {}
