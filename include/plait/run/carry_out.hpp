// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/device.hpp"
#include "plait/core/macros.hpp"
#include "plait/layer/typing.hpp"

namespace plait::execution {

/// Calls a device's kernel for an operation on a queue. `row` is the operation's entry in the table
/// of operations. `arguments` are the operands as matrices, then the numbers of the kernel, in the
/// order of the queue's function. All operations call a queue through this function. If a device
/// lacks the kernel, the compiler therefore prints one sentence instead of a list of functions that
/// do not fit. The check is in a function and not in a lambda, because nvcc finds no members in a
/// requirement within a lambda.
template <class Queue, class Row, class... Arguments>
PLAIT_IN_LOOPS void carry_out(Queue const& queue, Row row, Arguments const&... arguments) {
  constexpr bool has_kernel = ext::runs<Queue, Row, Arguments...>;
  static_assert(typing::sound_kernel<Row, has_kernel>);
  if constexpr (has_kernel) queue.run(row, arguments...);
}

}  // namespace plait::execution
