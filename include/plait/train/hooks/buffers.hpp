// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>

#include "plait/core/namespaces.hpp"
#include "plait/plan/sharding/parameter_blocks.hpp"
#include "plait/train/hooks/step_hook.hpp"

namespace plait::execution {

/// Calls action(first, count, share) for each buffer that is not frozen and has elements in
/// `block`, a block that this rank's optimizer owns. `first` and `count` are the range of these
/// elements; `first` counts from the block's first element. `share` is the buffer's momentum, which
/// is the weight of the new value in an update.
template <class Plan, class Store, class Action>
void for_each_buffer(Store const& store, owned_block const& block, Action action) {
  if constexpr (Plan::has_buffers)
    for (auto const& parameter : store.local()) {
      auto const& entry = Plan::entries[parameter.entry];
      if (!entry.info.is_buffer() || entry.is_frozen) continue;
      if (auto const common = overlap(block.elements, parameter); common.count > 0)
        action(common.offset - block.elements.offset, common.count,
               static_cast<double>(entry.info.momentum_nano) * 1e-9);
    }
}

template <class Parameter, class Gradient>
consteval void check_buffer_type() {
  static_assert(
      std::is_same_v<Parameter, Gradient>,
      "nn::buffer: the job keeps its parameters in bfloat16, and small updates of a buffer would "
      "be lost to rounding; write precision<bfloat16, float>, which keeps parameters in float");
}

/// Updates buffers, such as the running mean of a batch norm, after the optimizer's update of a
/// block. The new value that a step has computed for a buffer is in the arena of gradients, and has
/// been reduced over the ranks like a gradient. With a momentum of 0.1, buffer = 0.9 * buffer + 0.1
/// * value. The new value is also copied to the copies that layers see, and to the averages. A step
/// whose loss or gradient norm is not finite changes no buffer.
template <class Job, class Averages>
class buffers : public step_hook {
  using plan = typename Job::plan_type;
  using element = typename Job::parameter_element;

 public:
  explicit buffers(Averages const& averaged) : averaged_(averaged) {}

  void after_update(owned_block const& block, double const* gradient_scale) const {
    if constexpr (plan::has_buffers) {
      check_buffer_type<element, typename Job::gradient_element>();
      auto const& store = averaged_.store();
      for_each_buffer<plan>(store, block, [&](std::size_t at, std::size_t count, double share) {
        auto const queue = averaged_.queue();
        element* const value = store.parameters_of(block) + at;
        queue.average(reinterpret_cast<element const*>(store.gradients() + block.gradients_at + at),
                      value, count, 1 - share, gradient_scale);
        if constexpr (plan::has_copies)
          queue.convert(static_cast<element const*>(value), store.copies_of(block) + at, count);
        averaged_.copy(block, at, count);
      });
    }
  }

 private:
  Averages const& averaged_;
};

}  // namespace plait::execution
