// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "plait/core/namespaces.hpp"

namespace plait::detail {

// The static_assert is in a function of its own, which initialises a constant. In call_kernel,
// compilers would print the types of all views ahead of the message.
template <class Kernel, bool CanBeCalled>
consteval void check_kernel() {
  static_assert(CanBeCalled,
                "ops.run(kernel, views...): the kernel cannot be called with a queue and these "
                "views; write `void operator()(auto const& queue, auto x, auto y) const`, with as "
                "many views as are given");
}
template <class Kernel, bool CanBeCalled>
inline constexpr bool sound_kernel = (check_kernel<Kernel, CanBeCalled>(), true);

}  // namespace plait::detail

namespace plait::ext {

/// Calls kernel(queue, views...), a layer's own operation. A device's queue implements its function
/// run(kernel, views...) by calling this function.
template <class Kernel, class Queue, class... Views>
void call_kernel(Kernel& kernel, Queue const& queue, Views const&... views) {
  constexpr bool can_be_called = std::is_invocable_v<Kernel&, Queue const&, Views...>;
  static_assert(plait::detail::sound_kernel<Kernel, can_be_called>);
  if constexpr (can_be_called) kernel(queue, views...);
}

}  // namespace plait::ext
