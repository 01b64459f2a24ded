// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <type_traits>

#include "plait/core/lean_vector.hpp"
#include "plait/plan/memory/recompute.hpp"
#include "plait/plan/schedule/stream_operations.hpp"
#include "plait/run/stage_memory.hpp"
#include "plait/run/step_facts.hpp"

namespace plait::execution {

/// Makes the steps of an item wait for each other across streams. An item is a run of consecutive
/// identical pipeline units, whose steps are the same. A step that communicates runs on the stream
/// of the tensor axis, and all other steps run on stream compute, so a step must wait for the steps
/// on the other stream whose buffers it reads or overwrites. plan_item_waits has found these waits.
/// keep() makes a step's stream wait before the step, and record() records the step's event after
/// it. For example, if step 3 is an all_reduce between the products of steps 2 and 4, step 3 waits
/// for the event of step 2, and step 4 for the event of step 3. No step waits if there is one
/// tensor rank.
///
/// Cost:    one event for each step; none of its calls allocates.
/// Threads: used by the one thread that runs the rank.
template <class Setting, class Device>
class item_synchronizer {
  static constexpr auto traits = Setting::traits;
  using memory_type = stage_memory<Setting>;

 public:
  using waits = typename waits_of_items<traits.leaves>::waits;
  /// True if steps may wait for each other: with one tensor rank they all run on stream compute.
  static constexpr bool has_waits = Setting::leaf::tensor_ranks > 1;

  /// Identifies the list of waits of an item by numbers, so that one function serves all items.
  struct planned_waits {
    int item;
    direction way;
    unsigned char steps_again = 0;  // see unit_frame::steps_again
  };

  [[gnu::cold]] item_synchronizer(Device& device, memory_type const& memory)
      : device_(device), memory_(memory) {
    for (auto& event : events_) event = device.make_event();
    if constexpr (has_waits && traits.has_reruns) plan_reruns();
  }

  /// Makes the stream of a step wait for all steps that it needs.
  [[gnu::noinline]] void keep(planned_waits all, int step) {
    auto const part = all.steps_again != 0            ? wait_site::part::forward_again
                      : all.way == direction::forward ? wait_site::part::forward
                                                      : wait_site::part::backward;
    for (auto const& wait : planned(all).list)
      if (wait.waiting == step)
        device_.wait(stream_of(step, all.way), event_of(wait.awaited), {part, step, wait.awaited});
  }
  /// Records the event of a step if other steps wait for it.
  [[gnu::noinline]] void record(planned_waits all, int step) {
    if (planned(all).is_awaited(step)) device_.record(event_of(step), stream_of(step, all.way));
  }
  /// Calls keep() and record() for the beginning or the end of an item, which are places in the
  /// list of waits but run no work.
  [[gnu::noinline]] void pass_edge(planned_waits all, int edge) {
    keep(all, edge);
    record(all, edge);
  }

 private:
  [[nodiscard]] stream stream_of(int step, direction way) const {
    if (step == waits::begin || step >= waits::end) return stream::compute;
    auto const& now = memory_.plan().steps[step];
    return now.kind == step_kind::move &&
                   communicates(row_of_move(memory_.plan().values, now, way).moves)
               ? within_layers
               : stream::compute;
  }
  [[nodiscard]] waits planned(planned_waits all) const {
    if constexpr (traits.has_reruns)
      if (all.steps_again != 0) {
        auto const& found =
            again_[std::size_t(all.item * again_kinds + std::countr_zero(all.steps_again))];
        return {{found.data(), int(found.size())}};
      }
    return (all.way == direction::forward ? memory_.waits().forward : memory_.waits().backward)
        .of(all.item);
  }
  [[nodiscard]] auto& event_of(int step) { return events_[std::size_t(step + 1)]; }
  [[gnu::cold]] void plan_reruns() {
    auto const& plan = memory_.plan();
    for (int i = 0; i < plan.items.size(); ++i)
      for (int what = 0; what < again_kinds; ++what)
        again_.push_back(plan_item_waits<program<traits.leaves>::most_steps>(
            plan, plan.leaves, plan.storage, plan.needs_gradient, plan.items[i], direction::forward,
            [&](int step) { return (plan.reruns[step] & bit_of(what)) != 0; }));
  }

  Device& device_;
  memory_type const& memory_;
  // An event for each step, and for the beginning and the end of the item.
  std::array<typename Device::event, std::size_t(waits::parameters_of(waits::end) + 1)> events_{};
  struct nothing_again {};
  // The waits between steps that are recomputed, for each item and each kind of recomputation.
  [[no_unique_address]] std::conditional_t<
      traits.has_reruns, lean_vector<lean_vector<planned_wait>>, nothing_again> again_{};
};

}  // namespace plait::execution
