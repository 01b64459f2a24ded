// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/mesh/stream.hpp"
#include "plait/plan/model/program.hpp"
#include "plait/run/move.hpp"
#include "plait/run/pass_frame.hpp"
#include "plait/run/stage_memory.hpp"

namespace plait::execution {

/// Runs the nodes of a unit that are not layers. Such a node moves a value to another placement, or
/// copies or adds values at the beginning or end of a residual.
///
/// Threads: used by the one thread that runs the rank.
template <class Setting, class Rank>
class value_nodes {
  using setting = typename Setting::leaf;
  using T = typename setting::element;
  using frame_type = unit_frame<setting>;

 public:
  value_nodes(Rank& rank, stage_memory<Setting> const& memory) : rank_(rank), memory_(memory) {}

  /// Runs the forward of a node that begins or ends a residual or a fan_out.
  void forward_sum(program_node const& now, frame_type const& at) const {
    std::byte* const in = memory_.value_data(now.in, at);
    std::byte* const out = memory_.value_data(now.out, at);
    std::size_t const count = memory_.block(now.in).count();
    if (now.kind == program_node_kind::add) {
      queue().add(as_elements(in), as_elements(memory_.value_data(now.skip, at)), as_elements(out),
                  count);
    } else {
      queue().copy_bytes(in, out, count * sizeof(T));
      if (now.kind == program_node_kind::fan_out)
        queue().copy_bytes(in, memory_.value_data(now.skip, at), count * sizeof(T));
    }
  }
  void backward_sum(program_node const& now, frame_type const& at) const {
    std::byte* const dout = memory_.gradient_data(now.out, at);
    std::byte* const din = memory_.gradient_data(now.in, at);
    std::size_t const count = memory_.block(now.in).count();
    if (now.kind == program_node_kind::add) queue().copy_bytes(dout, din, count * sizeof(T));
    else
      queue().add(as_elements(dout), as_elements(memory_.gradient_data(now.skip, at)),
                  as_elements(din), count);
  }

  /// Moves the value of a node, or the value's gradient in a backward, to another placement.
  template <direction Way, placement From, placement To, class Element>
  [[gnu::noinline]] void move(int node, frame_type const& at) const {
    constexpr auto moves = transition_between(From, To).moves;
    constexpr bool forward = Way == direction::forward;
    auto const& now = memory_.plan().nodes[node];
    auto* const in = forward ? memory_.value_data(now.in, at) : memory_.gradient_data(now.out, at);
    auto* const out = forward ? memory_.value_data(now.out, at) : memory_.gradient_data(now.in, at);
    [[maybe_unused]] auto const mark = rank_.device().mark(to_string(moves));
    move_value<From, To>(rank_.device().on(communicates(moves) ? within_layers : stream::compute),
                         rank_.tensor_group(),
                         whole_shape{memory_.rows(), memory_.plan().values[now.in].info.width},
                         reinterpret_cast<Element const*>(in), reinterpret_cast<Element*>(out),
                         reinterpret_cast<Element*>(memory_.at(memory_.arena().staging_offset)));
  }

  /// Tells the device, after the body of a leaf, that the leaf's scratch memory is no longer
  /// needed.
  void forget_scratch(int leaf) const {
    auto const& plan = memory_.plan();
    auto const& scratch = plan.leaves[leaf].scratch;
    for (int k = 0; k < scratch.own.size(); ++k) {
      auto const& slot = scratch.own[k];
      queue().discard(
          memory_.transients() + memory_.layout().scratch_offset[std::size_t(leaf)][std::size_t(k)],
          (slot.element == slot_element::compute ? sizeof(T) : sizeof(accumulate_t<T>)) *
              slot_count(slot, plan.form(leaf), memory_.rows(), setting::tensor_ranks));
    }
  }
  /// Tells the device, after a unit, that the transient buffers are no longer needed.
  void forget_transients() const {
    auto const& arena = memory_.arena();
    queue().discard(memory_.transients(), arena.transient_bytes + arena.staging_bytes);
  }

 private:
  [[nodiscard]] auto queue() const { return rank_.device().on(stream::compute); }
  static T* as_elements(std::byte* data) { return reinterpret_cast<T*>(data); }

  Rank& rank_;
  stage_memory<Setting> const& memory_;
};

}  // namespace plait::execution
