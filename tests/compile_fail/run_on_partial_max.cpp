// SPDX-License-Identifier: Apache-2.0
// expect: ops.run(kernel, views...): a view is a partial maximum, of which the kernel has only this
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::operations<plait::threads::rank_type>;

struct minus {
  static constexpr bool is_linear = true;
  void operator()(auto const&, auto x) const {
    for (std::size_t i = 0; i < x.count(); ++i) x.data[i] = -x.data[i];
  }
};

void forward(operations& ops, view<float, plait::partial_max> x) {
#ifdef PLAIT_EXPECT_FAIL
  ops.run(minus{}, x);
#else
  ops.run(minus{}, ops.move<plait::invariant>(x));
#endif
}

int main() {}
