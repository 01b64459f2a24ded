// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/macros.hpp"
#include "plait/core/type_list.hpp"
#include "plait/plan/memory/recompute.hpp"
#include "plait/plan/sharding/arena_layout.hpp"
#include "plait/run/context.hpp"
#include "plait/run/forward_watch.hpp"
#include "plait/run/pass_frame.hpp"
#include "plait/run/stage_memory.hpp"
#include "plait/run/step_code.hpp"
#include "plait/run/unit_runner.hpp"

namespace plait::execution {

/// Where a unit has its activations and its gradients in the stashes of its chunk, in bytes; what
/// is made again of it is not in the stash from `stash_end` on.
struct unit_place {
  std::size_t activations = 0, gradients = 0, stash_end = 0;
};

/// The units of a range that lie in another one.
constexpr unit_range within(unit_range piece, unit_range units) {
  return {std::max(units.begin, piece.begin), std::min(units.end, piece.end)};
}

/// The places of the units of a model. `activations`: of a unit of each item, where its stash ends,
/// for each `again`; `gradients`: the bytes of its gradients' stash.
[[nodiscard]] [[gnu::cold]] lean_vector<unit_place> places_of_units(
    static_view<item> items, lean_vector<chunk_arena> const& chunks,
    recompute_table const& recomputes, std::array<std::size_t, again_kinds> const* activations,
    std::size_t const* gradients);

/// Runs the units of an item on one microbatch, one behind the other: what one has made is the
/// input of the next. Knows no model: stage_runner has the items.
///
/// Cost:   no allocation.
/// Threads: used by the one thread that runs the rank.
template <class Setting, class Rank>
class item_runner {
  static constexpr auto traits = Setting::traits;

 public:
  using memory_type = stage_memory<Setting>;
  using arenas = typename memory_type::arenas;

  /// `names`: of the leaves.
  [[gnu::cold]] item_runner(Rank& rank, memory_type memory, std::vector<std::string> names)
      : memory_(std::move(memory)), unit_(rank, memory_, std::move(names)) {
    auto const& layout = memory_.layout();
    auto const& plan = memory_.plan();
    places_ = places_of_units(plan.items, arena().chunks, plan.recomputes, layout.stash_end.data(),
                              layout.gradient_stash_bytes.data());
  }
  item_runner(item_runner const&) = delete;
  item_runner& operator=(item_runner const&) = delete;

  [[nodiscard]] stage_arena const& arena() const { return memory_.arena(); }

  /// \see unit_runner::context
  [[nodiscard]] layer_context& context() { return unit_.context(); }

  /// Where the targets of the microbatch are, and its loss: `loss` is that of the first term, whose
  /// sums and scales the others follow.
  void set_loss(void const* targets, loss_sum const& loss) {
    memory_.set_targets(targets);
    unit_.set_loss(loss);
  }
  /// Where the next backwards add up the gradients of parameters.
  void set_gradients(typename memory_type::setting::sum* to) { memory_.set_gradients(to); }
  /// Where values and parameters of the stage lie.
  [[nodiscard]] memory_type& memory() { return memory_; }
  /// \see unit_runner::begin_gradients
  void begin_gradients(bool begins) { unit_.begin_gradients(begins); }
  /// \see unit_runner::steps_again
  [[nodiscard]] auto& steps_again() { return unit_.steps_again(); }
  /// \see unit_runner::watch
  void watch(forward_watch* by) { unit_.watch(by); }

 protected:
  ~item_runner() = default;

  /// Takes the places of a microbatch in a chunk; the units that are meant.
  unit_range enter(pass_place const& at) {
    chunk_ = &arena().chunks[std::size_t(at.chunk)];
    activations_ = memory_.at(at.stash);
    if constexpr (traits.splits_backward) gradient_stash_ = memory_.at(at.gradient_stash);
    return at.units.end == 0 ? chunk_->units : at.units;
  }
  /// What a unit is given, in a chunk that is given `input`.
  [[nodiscard]] std::byte* input_of(int unit, std::byte* input) const {
    return unit == chunk_->units.begin ? input : activations_of(unit - 1);
  }
  /// Whether what the next forwards make is made again.
  void set_runs_again(bool runs_again) { runs_again_ = runs_again; }
  /// Begins a backward: `gradient` is that of the output of the chunk, and `to` where that of its
  /// input is wanted, if not where units have it in turn. The gradient that the first unit is
  /// given.
  std::byte* begin_backward(unit_range units, std::byte* gradient, std::byte* to) {
    of_chunk_input_ = to;
    if (units.end != chunk_->units.end) return made_;
    edge_ = 0;
    return gradient;
  }

  /// Runs the units of an item that are among `units` forward; what the last has made, or `made`.
  template <item_facts Item, class... Steps>
  std::byte* forward_item(item_code<Item, Steps...>, unit_range units, std::byte* made) {
    auto const here = within(Item.units, units);
    for (int unit = here.begin; unit < here.end; ++unit) {
      pass_frame const frame = begin_unit_forward(Item, unit, made);
      in_order{(unit_.template forward_step<Steps>(frame), 0)...};
      unit_.end_forward(Item, frame);
      made = frame.output;
    }
    return made;
  }
  /// The same backward, on the gradient of the output; `Steps` in the order of the backward.
  template <item_facts Item, class... Steps>
  std::byte* backward_item(item_code<Item, Steps...>, unit_range units, std::byte* input,
                           std::byte* gradient, backward_part part) {
    auto const here = within(Item.units, units);
    for (int unit = here.end - 1; unit >= here.begin; --unit) {
      pass_frame const frame = begin_unit_backward(Item, unit, input, gradient, part);
      in_order{(unit_.template backward_step<Steps>(frame), 0)...};
      end_backward(Item, unit, part);
      gradient = made_;
    }
    return gradient;
  }
  /// The part of the parameters alone.
  template <item_facts Item, class... Steps>
  void parameters_of_item(item_code<Item, Steps...>, unit_range units, std::byte* input) {
    auto const here = within(Item.units, units);
    for (int unit = here.end - 1; unit >= here.begin; --unit) {
      enter_item(Item, unit);
      auto const frame = frame_of(unit, input, nullptr, nullptr);
      unit_.begin_backward(Item, backward_part::parameters);
      in_order{(unit_.template backward_parameters<typename Steps::step>(frame), 0)...};
      unit_.end_backward(Item);
      if constexpr (traits.has_reruns) discard_working(Item.number, unit);
    }
  }
  /// Lets the layers of an item get ready that have anything to.
  template <item_facts Item, class... Steps>
  [[gnu::cold]] void prepare_item(item_code<Item, Steps...>, unit_range units) {
    if constexpr (place_of_first({Steps::facts.has_prepare...}) >= 0) {
      auto const here = within(Item.units, units);
      if (here.begin >= here.end) return;
      enter_item(Item, here.begin);
      pass_frame const frame{.unit = here.begin,
                             .input = activations_of(here.begin),
                             .output = activations_of(here.begin)};
      in_order{(unit_.template prepare_step<Steps>(frame), 0)...};
    }
  }

 private:
  /// Begins a unit of an item: where it works.
  PLAIT_IN_LOOPS pass_frame begin_unit_forward(item_facts const& item, int unit, std::byte* made) {
    enter_item(item, unit);
    pass_frame frame{.unit = unit, .input = made, .output = activations_of(unit)};
    if constexpr (traits.has_reruns) {
      set_working(frame);
      discard_working(item.number, unit);
      if (runs_again_) frame.steps_again = bit_of(memory_.plan().recomputes.of(unit));
    }
    unit_.begin_forward(item, frame);
    return frame;
  }
  /// The same backward; what it makes goes to `made_`.
  PLAIT_IN_LOOPS pass_frame begin_unit_backward(item_facts const& item, int unit, std::byte* input,
                                                std::byte* gradient, backward_part part) {
    enter_item(item, unit);
    made_ = memory_.edge(edge_);
    edge_ = 1 - edge_;
    if constexpr (traits.has_chunks)
      if (of_chunk_input_ != nullptr && unit == chunk_->units.begin) made_ = of_chunk_input_;
    unit_.begin_backward(item, part);
    return frame_of(unit, input, gradient, made_);
  }
  void end_backward(item_facts const& item, int unit, backward_part part) {
    unit_.end_backward(item);
    if constexpr (traits.has_reruns)
      if (part == backward_part::all) discard_working(item.number, unit);
  }

  /// Where what is made again of a unit lies.
  void set_working(pass_frame& frame) const {
    frame.stash_end = places_[std::size_t(frame.unit)].stash_end;
    frame.working = memory_.at(arena().working_offset) - frame.stash_end;
  }
  /// What lies in the working record is another unit's, or is not needed any more.
  void discard_working(int item, int unit) {
    auto const bytes = memory_.layout().activation_stash_bytes[std::size_t(item)] -
                       places_[std::size_t(unit)].stash_end;
    if (bytes > 0) unit_.discard(memory_.at(arena().working_offset), bytes);
  }

  [[nodiscard]] std::byte* activations_of(int unit) const {
    return activations_ + places_[std::size_t(unit)].activations;
  }
  [[nodiscard]] pass_frame frame_of(int unit, std::byte* input, std::byte* of_output,
                                    std::byte* of_input) const {
    pass_frame out{unit, input_of(unit, input), activations_of(unit), of_output, of_input};
    if constexpr (traits.splits_backward)
      out.gradient_stash = gradient_stash_ + places_[std::size_t(unit)].gradients;
    if constexpr (traits.has_reruns) set_working(out);
    return out;
  }

  void enter_item(item_facts const& item, int unit) {
    unit_.context().copy = unit - item.units.begin;
  }

  memory_type memory_;
  unit_runner<Setting, Rank> unit_;
  lean_vector<unit_place> places_{};  // of the units of the model
  // Of the pass that runs.
  chunk_arena const* chunk_ = nullptr;
  std::byte *activations_ = nullptr, *gradient_stash_ = nullptr;
  std::byte* of_chunk_input_ = nullptr;
  bool runs_again_ = false;
  int edge_ = 0;               // the place that the gradient of the next unit's input gets
  std::byte* made_ = nullptr;  // the gradient that the last unit has made
};

}  // namespace plait::execution

#if PLAIT_HEADER_ONLY
#include "plait/run/item_runner.ipp"
#endif
