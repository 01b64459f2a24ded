// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <type_traits>

#include "plait/core/lean_vector.hpp"
#include "plait/plan/memory/recompute.hpp"
#include "plait/plan/schedule/stream_operations.hpp"
#include "plait/run/node_facts.hpp"
#include "plait/run/stage_memory.hpp"

namespace plait::execution {

/// Makes the nodes of an item wait for each other across streams. An item is a run of consecutive
/// identical pipeline units, whose nodes are the same. A node that communicates runs on the stream
/// of the tensor axis, and all other nodes run on stream::compute, so a node must wait for the
/// nodes on the other stream whose buffers it reads or overwrites. plan_item_waits has found these
/// waits. keep() makes a node's stream wait before the node, and record() records the node's event
/// after it. For example, if node 3 is an all_reduce between the products of nodes 2 and 4, node 3
/// waits for the event of node 2, and node 4 for the event of node 3. No node waits if there is one
/// tensor rank.
///
/// Cost:    one event for each node; none of its calls allocates.
/// Threads: used by the one thread that runs the rank.
template <class Setting, class Device>
class item_synchronizer {
  static constexpr auto traits = Setting::traits;
  using memory_type = stage_memory<Setting>;

 public:
  using waits = typename waits_of_items<traits.leaves>::waits;
  /// True if nodes may wait for each other. With one tensor rank all nodes run on stream::compute,
  /// so no node waits.
  static constexpr bool has_waits = Setting::leaf::tensor_ranks > 1;

  /// Identifies the list of waits of an item with numbers and not with a type, so that one function
  /// serves all items.
  struct planned_waits {
    int item;
    direction way;
    unsigned char recompute_bit = 0;  // see unit_frame::recompute_bit
  };

  [[gnu::cold]] item_synchronizer(Device& device, memory_type const& memory)
      : device_(device), memory_(memory) {
    for (auto& event : events_) event = device.make_event();
    if constexpr (has_waits && traits.has_recompute) plan_recompute();
  }

  /// Makes the stream of a node wait for all nodes for which this node has to wait.
  [[gnu::noinline]] void keep(planned_waits all, int node) {
    auto const part = all.recompute_bit != 0          ? wait_site::part::recompute
                      : all.way == direction::forward ? wait_site::part::forward
                                                      : wait_site::part::backward;
    for (auto const& wait : planned(all).list)
      if (wait.waiting == node)
        device_.wait(stream_of(node, all.way), event_of(wait.awaited), {part, node, wait.awaited});
  }
  /// Records the event of a node if other nodes wait for it.
  [[gnu::noinline]] void record(planned_waits all, int node) {
    if (planned(all).is_awaited(node)) device_.record(event_of(node), stream_of(node, all.way));
  }
  /// Calls keep() and record() for the beginning or the end of an item. Both are in the list of
  /// waits, but they run no work.
  [[gnu::noinline]] void pass_edge(planned_waits all, int edge) {
    keep(all, edge);
    record(all, edge);
  }

 private:
  [[nodiscard]] stream stream_of(int node, direction way) const {
    if (node == waits::begin || node >= waits::end) return stream::compute;
    auto const& now = memory_.plan().nodes[node];
    return now.kind == program_node_kind::move &&
                   communicates(row_of_move(memory_.plan().values, now, way).moves)
               ? within_layers
               : stream::compute;
  }
  [[nodiscard]] waits planned(planned_waits all) const {
    if constexpr (traits.has_recompute)
      if (all.recompute_bit != 0) {
        auto const& found =
            recompute_[std::size_t(all.item * granularities + std::countr_zero(all.recompute_bit))];
        return {{found.data(), int(found.size())}};
      }
    return (all.way == direction::forward ? memory_.waits().forward : memory_.waits().backward)
        .of(all.item);
  }
  [[nodiscard]] auto& event_of(int node) { return events_[std::size_t(node + 1)]; }
  [[gnu::cold]] void plan_recompute() {
    auto const& plan = memory_.plan();
    for (int i = 0; i < plan.items.size(); ++i)
      for (int what = 0; what < granularities; ++what)
        recompute_.push_back(plan_item_waits<program<traits.leaves>::most_nodes>(
            plan, plan.leaves, plan.storage, plan.needs_gradient, plan.items[i], direction::forward,
            [&](int node) { return (plan.recomputed[node] & bit_of(what)) != 0; }));
  }

  Device& device_;
  memory_type const& memory_;
  // An event for each node, and for the beginning and the end of the item.
  std::array<typename Device::event, std::size_t(waits::parameters_of(waits::end) + 1)> events_{};
  struct no_recompute {};
  // The waits between nodes that are recomputed, for each item and each kind of recomputation.
  [[no_unique_address]] std::conditional_t<
      traits.has_recompute, lean_vector<lean_vector<planned_wait>>, no_recompute> recompute_{};
};

}  // namespace plait::execution
