// SPDX-License-Identifier: Apache-2.0
// A row for which the device has no kernel; compilers name the layer whose body uses it.
// first: this device has no kernel for an operation of this layer
// expect: layer_of_own_row
#include "plait/backend/host/threads.hpp"
#include "plait/operation/rows.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::ext::operations<plait::threads::rank_type>;

struct twice {
  static constexpr plait::operation::row is{"twice", "x(r c) -> y(r c); linear all"};
};

struct layer_of_own_row {
  static void forward(auto& ops, auto x, auto y) {
#ifdef PLAIT_EXPECT_FAIL
    ops.run(twice{}, x, y);
#else
    ops.run(plait::operation::add{}, x, x, y);
#endif
  }
};

void forward(operations& ops, view<float const> x, view<float> y) {
  layer_of_own_row::forward(ops, x, y);
}

int main() {}
