// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/device.hpp"
#include "plait/core/macros.hpp"
#include "plait/layer/typing.hpp"

namespace plait::execution {

/// Carries out a row: operands as matrices, then the kernel's numbers, in the order in which the
/// queue takes them. Operations call a queue by this function alone, so that a device without the
/// kernel has a sentence, not the compiler's list of functions that do not fit. nvcc needs a
/// function for that: it finds no members in a requirement within a lambda.
template <class Queue, class Row, class... Arguments>
PLAIT_IN_LOOPS void carry_out(Queue const& queue, Row row, Arguments const&... arguments) {
  constexpr bool has_kernel = ext::runs<Queue, Row, Arguments...>;
  static_assert(typing::sound_kernel<Row, has_kernel>);
  if constexpr (has_kernel) queue.run(row, arguments...);
}

}  // namespace plait::execution
