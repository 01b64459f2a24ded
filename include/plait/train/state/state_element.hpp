// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/plan/model/workload.hpp"

namespace plait::execution {

/// The type in which an optimizer's states are stored: its `state_element`, or the type of the
/// parameters if the optimizer has none.
template <class Optimizer, class Parameter>
struct state_element_of_optimizer {
  using type = Parameter;
};
template <class Optimizer, class Parameter>
  requires(ext::state_bytes_of<Optimizer>() > 0)
struct state_element_of_optimizer<Optimizer, Parameter> {
  using type = typename Optimizer::state_element;
};
template <class Optimizer, class Parameter>
using state_element_of = typename state_element_of_optimizer<Optimizer, Parameter>::type;

/// The tables of a trainer by which the states of an optimizer are rounded. Only an optimizer with
/// a `state_element` has such tables; state_rounding.hpp defines them.
template <class Device, class Optimizer>
struct state_rounding {
  static_assert(ext::state_bytes_of<Optimizer>() == 0,
                "trainer<Job>(rank, optimizer): the optimizer has a state_element; include "
                "plait/train/state/state_rounding.hpp in front of the trainer");
  [[nodiscard]] static constexpr std::size_t bytes() { return 0; }
};

}  // namespace plait::execution
