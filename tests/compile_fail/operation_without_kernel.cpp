// SPDX-License-Identifier: Apache-2.0
// Operations that call kernels whose operands are not views: a part of a row, a function, patches.
// first: this device has no kernel for an operation of this layer
// first: this device has no kernel for an operation of this layer
// first: this device has no kernel for an operation of this layer
// expect: plait::operation::row_max
// expect: plait::operation::map
// expect: plait::operation::gather_patches
#include "plait/backend/host/host_queue.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/operation/rows.hpp"
#include "plait/run/operations.hpp"
#include "plait/tensor/view.hpp"

#include <type_traits>

namespace operation = plait::operation;
using plait::view;

struct few_kernels : plait::ext::queue_calls<few_kernels> {
  template <operation::is_row Row, class... Arguments>
  void run(Row row, Arguments... arguments) const
#ifdef PLAIT_EXPECT_FAIL
    requires(!std::is_same_v<Row, operation::row_max> && !std::is_same_v<Row, operation::map> &&
             !std::is_same_v<Row, operation::gather_patches>)
#endif
  {
    plait::ext::host_queue{}.run(row, arguments...);
  }
};
struct small_device {
  using memory = plait::ext::host_memory;
  using queue = few_kernels;
  queue on(plait::ext::stream) { return {}; }
};
struct small_rank {
  using device_type = small_device;
  device_type& device();
};
using operations = plait::ext::operations<small_rank>;

struct half {
  PLAIT_HOST_DEVICE double operator()(double x) const { return x / 2; }
};

void largest(operations& ops, view<float const> x, view<float> y) { ops.row_max(x, y); }
void halves(operations& ops, view<float const> x, view<float> y) { ops.map(half{}, x, y); }
void convolved(operations& ops, view<float const> x, view<float> y) {
  ops.convolve({}, 1, x, x, y, y);
}

int main() {}
