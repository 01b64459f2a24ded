// SPDX-License-Identifier: Apache-2.0
// The kernel of a row in a formula for a queue that is not the device's; compilers name the row.
// first: own(row, operands...): the row has no kernel for this device, or none for these
// expect: row_of_other_device
#include "plait/backend/host/threads.hpp"
#include "plait/formula/own.hpp"
#include "plait/operation/rows.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::ext::operations<plait::threads::rank_type>;

struct other_queue {};

struct row_of_other_device {
  static constexpr plait::operation::row is{"twice", "x(r c) -> y(r c); linear all"};
#ifdef PLAIT_EXPECT_FAIL
  using queue = other_queue;
#else
  using queue = plait::ext::host_queue;
#endif
  void operator()(queue const&, auto x, auto y) const { y.data[0] = 2 * x.data[0]; }
};

void forward(operations& ops, view<float const> x, view<float> y) {
  ops.run<plait::operation::indices_of<row_of_other_device>>(
      plait::formula::kernel_of_row<row_of_other_device>{}, x, y);
}

int main() {}
