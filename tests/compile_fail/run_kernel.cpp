// SPDX-License-Identifier: Apache-2.0
// first: ops.run(kernel, views...): the kernel cannot be called with a queue and these views
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::operations<plait::threads::rank_type>;

struct twice {
#ifdef PLAIT_EXPECT_FAIL
  void operator()(auto x, auto y) const {
#else
  void operator()(auto const&, auto x, auto y) const {
#endif
      for (std::size_t i = 0; i < x.count(); ++i) y.data[i] = 2 * x.data[i];
}
}
;

void forward(operations& ops, view<float const> x, view<float> y) { ops.run(twice{}, x, y); }

int main() {}
