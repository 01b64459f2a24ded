// SPDX-License-Identifier: Apache-2.0
// Rows given to ops.run, and operands that do not fit to them.
// expect: this operation takes another number of views: pass one view for each operand that
// expect: ops.run(row, ...): the indices of this row do not express all requirements of the
// expect: an operand is a view of memory that does not belong to this device, such as host memory;
// expect: a result of this operation is not partial, but an operand in which the operation is
#include "plait/backend/host/threads.hpp"
#include "plait/operation/rows.hpp"
#include "plait/run/operations.hpp"

namespace operation = plait::operation;
using plait::view;
using operations = plait::ext::operations<plait::threads::rank_type>;

struct other_memory {
  using concept_tag = plait::ext::memory_tag;
};

#ifdef PLAIT_EXPECT_FAIL
using memory = other_memory;
constexpr plait::placement of_sum = plait::invariant;
#else
using memory = plait::ext::host_memory;
constexpr plait::placement of_sum = plait::partial;
#endif

void add_fewer(operations& ops, view<float const> x, view<float> y) {
#ifdef PLAIT_EXPECT_FAIL
  ops.run(operation::add{}, x, y);
#else
  ops.run(operation::add{}, x, x, y);
#endif
}

void run_part(operations& ops, view<float const> x, view<float> y) {
#ifdef PLAIT_EXPECT_FAIL
  ops.run(operation::max_pool{}, x, y, plait::ext::window_shape{});
#else
  ops.max_pool(plait::ext::window_shape{}, x, y);
#endif
}

void add_of_another_device(operations& ops, view<float const, plait::invariant, memory> x,
                           view<float> y) {
  ops.add(x, x, y);
}

void add_sums(operations& ops, view<float const, plait::partial> x, view<float, of_sum> y) {
  ops.add(x, x, y);
}

int main() {}
