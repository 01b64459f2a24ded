// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "plait/core/lean_vector.hpp"
#include "plait/core/type_list.hpp"
#include "plait/plan/parallel.hpp"
#include "plait/run/context.hpp"
#include "plait/run/forward_watch.hpp"
#include "plait/run/pass_frame.hpp"
#include "plait/run/stage_memory.hpp"
#include "plait/run/unit_runner.hpp"

namespace plait::execution {

// What is the same for all jobs is no part of the runner: its code would be compiled for each.

/// Where a unit has its activations and its gradients in the stashes of its chunk, in bytes; what
/// is made again of it is not in the stash from `stash_end` on.
struct unit_place {
  std::size_t activations = 0, gradients = 0, stash_end = 0;
};

/// The units of an item that lie in a range.
constexpr unit_range within(item const& piece, unit_range units) {
  return {std::max(units.begin, piece.first_unit),
          std::min(units.end, piece.first_unit + piece.count)};
}

/// The places of the units of a model. `activations`: of a unit of each item, where its stash ends,
/// for each `again`; `gradients`: the bytes of its gradients' stash.
[[nodiscard]] [[gnu::cold]] inline lean_vector<unit_place> places_of_units(
    static_view<item> items, lean_vector<chunk_arena> const& chunks,
    recompute_table const& recomputes, std::array<std::size_t, again_kinds> const* activations,
    std::size_t const* gradients) {
  lean_vector<unit_place> places(std::size_t(count_units(items)));
  for (auto const& chunk : chunks) {
    unit_place next;
    for (int i = 0; i < items.size(); ++i) {
      auto const here = within(items[i], chunk.units);
      for (int unit = here.begin; unit < here.end; ++unit) {
        next.stash_end = activations[i][std::size_t(recomputes.of(unit))];
        places[std::size_t(unit)] = next;
        next.activations += next.stash_end;
        next.gradients += gradients[i];
      }
    }
  }
  return places;
}

/// Runs the forward and the backward of the units of one pipeline stage on one microbatch, unit by
/// unit: what one has made is the input of the next.
///
/// Cost:   no allocation; the only branches are which items the stage has.
/// Threads: used by the one thread that runs the rank.
template <class Job, class Rank>
class stage_runner {
  using memory_type = stage_memory<Job, typename Rank::device_type::memory>;
  using plan = typename Job::plan_type;
  template <int Item>
  using steps_of = typename unit_runner<Job, Rank>::template steps_of<Item>;
  static constexpr auto& code = plan::code;
  static constexpr int items = code.items.size();

 public:
  using arenas = typename memory_type::arenas;

  [[gnu::cold]] stage_runner(Rank& rank, workload const& load, arenas const& where)
      : memory_(rank, load, where), unit_(rank, memory_) {
    auto const& layout = memory_.layout();
    places_ = places_of_units(code.items.view(), arena().chunks, plan::recomputes,
                              layout.stash_end.data(), layout.gradient_stash_bytes.data());
    if constexpr (prepares(0, plan::leaf_count)) prepare_layers();
  }
  stage_runner(stage_runner const&) = delete;
  stage_runner& operator=(stage_runner const&) = delete;

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
  void set_gradients(typename Job::gradient_element* to) { memory_.set_gradients(to); }
  /// \see stage_memory_base::place_parameters
  [[nodiscard]] memory_type& memory() { return memory_; }
  /// \see unit_runner::begin_gradients
  void begin_gradients(bool begins) { unit_.begin_gradients(begins); }
  /// \see unit_runner::steps_again
  [[nodiscard]] auto& steps_again() { return unit_.steps_again(); }
  /// \see unit_runner::watch
  void watch(forward_watch* by) { unit_.watch(by); }

  /// What the last forward of the last chunk gave to its loss.
  [[nodiscard]] std::byte const* model_output() const { return model_output_; }

  /// Runs units of a chunk on `input`, which is the chunk's, and returns their output, which lies
  /// in the activation stash. The items from `end_item` on are left out (the loss, when only the
  /// model's output is wanted).
  std::byte* forward(std::byte* input, pass_place const& at, int end_item = items) {
    auto const units = enter(at);
    std::byte* made = input_of(units.begin, input);
    return forward_items(units, made, end_item, item_numbers{});
  }

  /// Makes again what the backward of a unit reads and its forward has not kept: the same steps
  /// with the same numbers, but for terms of the loss. `input` and `at` are those of the forward.
  void forward_again(std::byte* input, pass_place const& at) {
    auto const units = enter(at);
    auto const* const output = model_output_;
    runs_again_ = true;
    forward_items(units, input_of(units.begin, input), items, item_numbers{});
    runs_again_ = false;
    model_output_ = output;
  }

  /// Runs units of a chunk backward on the gradient of the chunk's output and returns the gradient
  /// of their input; where they are not the last of the chunk, on that of the call before. `to`:
  /// where the gradient of the chunk's input is wanted, if not where units have it in turn.
  ///
  /// `input` and `at` are those of the forward; gradients of parameters are added up.
  std::byte* backward(std::byte* input, pass_place const& at, std::byte* gradient,
                      backward_part part = backward_part::all, std::byte* to = nullptr) {
    auto const units = enter(at);
    of_chunk_input_ = to;
    if constexpr (plan::splits_backward)
      if (part == backward_part::parameters) return backward_of_parameters(input, units), nullptr;
    if (units.end == chunk_->units.end) edge_ = 0;
    else gradient = made_;
    return backward_items(units, input, gradient, part, item_numbers{});
  }

 private:
  using item_numbers = std::make_index_sequence<std::size_t(items)>;

  template <std::size_t... I>
  std::byte* forward_items(unit_range units, std::byte* made, int end_item,
                           std::index_sequence<I...>) {
    in_order{(int(I) + 1 == items ? void(model_output_ = made) : void(),  // also without the loss
              int(I) < end_item ? void(made = forward_item<int(I)>(units, made, steps_of<int(I)>{}))
                                : void(),
              0)...};
    return made;
  }
  template <int Item, std::size_t... I>
  std::byte* forward_item(unit_range units, std::byte* made, std::index_sequence<I...>) {
    constexpr int first = code.items[Item].first_step;
    auto const here = within(code.items[Item], units);
    for (int unit = here.begin; unit < here.end; ++unit) {
      enter_item(Item, unit);
      pass_frame frame{.unit = unit, .input = made, .output = activations_of(unit)};
      if constexpr (plan::has_reruns) {
        set_working(frame);
        discard_working(Item, unit);
        if (runs_again_) frame.steps_again = bit_of(plan::recomputes.of(unit));
      }
      unit_.begin_forward(Item, frame);
      in_order{(unit_.template forward_step<first + int(I)>(frame), 0)...};
      unit_.end_forward(Item, frame);
      made = frame.output;
    }
    return made;
  }
  template <std::size_t... I>
  std::byte* backward_items(unit_range units, std::byte* input, std::byte* gradient,
                            backward_part part, std::index_sequence<I...>) {
    in_order{(gradient = backward_item<items - 1 - int(I)>(units, input, gradient, part,
                                                           steps_of<items - 1 - int(I)>{}),
              0)...};
    return gradient;
  }
  template <int Item, std::size_t... I>
  std::byte* backward_item(unit_range units, std::byte* input, std::byte* gradient,
                           backward_part part, std::index_sequence<I...>) {
    constexpr int last = code.items[Item].end_step - 1;
    auto const here = within(code.items[Item], units);
    for (int unit = here.end - 1; unit >= here.begin; --unit) {
      enter_item(Item, unit);
      made_ = memory_.edge(edge_);
      edge_ = 1 - edge_;
      if constexpr (plan::chunks > 1)
        if (of_chunk_input_ != nullptr && unit == chunk_->units.begin) made_ = of_chunk_input_;
      auto const frame = frame_of(unit, input, gradient, made_);
      unit_.begin_backward(Item, part);
      in_order{(unit_.template backward_step<last - int(I)>(frame), 0)...};
      unit_.end_backward(Item);
      if constexpr (plan::has_reruns)
        if (part == backward_part::all) discard_working(Item, unit);
      gradient = made_;
    }
    return gradient;
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
  /// What a unit is given, in a chunk that is given `input`.
  [[nodiscard]] std::byte* input_of(int unit, std::byte* input) const {
    return unit == chunk_->units.begin ? input : activations_of(unit - 1);
  }
  [[nodiscard]] pass_frame frame_of(int unit, std::byte* input, std::byte* of_output,
                                    std::byte* of_input) const {
    pass_frame out{unit, input_of(unit, input), activations_of(unit), of_output, of_input};
    if constexpr (plan::splits_backward)
      out.gradient_stash = gradient_stash_ + places_[std::size_t(unit)].gradients;
    if constexpr (plan::has_reruns) set_working(out);
    return out;
  }

  /// Takes the places of a microbatch in a chunk; the units that are meant.
  unit_range enter(pass_place const& at) {
    chunk_ = &arena().chunks[std::size_t(at.chunk)];
    activations_ = memory_.at(at.stash);
    if constexpr (plan::splits_backward) gradient_stash_ = memory_.at(at.gradient_stash);
    return at.units.end == 0 ? chunk_->units : at.units;
  }
  void enter_item(int item, int unit) { unit_.context().copy = unit - code.items[item].first_unit; }

  void backward_of_parameters(std::byte* input, unit_range units) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      in_order{
          (parameters_of_item<items - 1 - int(I)>(input, units, steps_of<items - 1 - int(I)>{}),
           0)...};
    }(item_numbers{});
  }
  template <int Item, std::size_t... I>
  void parameters_of_item(std::byte* input, unit_range units, std::index_sequence<I...>) {
    constexpr int last = code.items[Item].end_step - 1;
    auto const here = within(code.items[Item], units);
    for (int unit = here.end - 1; unit >= here.begin; --unit) {
      enter_item(Item, unit);
      auto const frame = frame_of(unit, input, nullptr, nullptr);
      unit_.begin_backward(Item, backward_part::parameters);
      in_order{(unit_.template backward_parameters<last - int(I)>(frame), 0)...};
      unit_.end_backward(Item);
      if constexpr (plan::has_reruns) discard_working(Item, unit);
    }
  }

  /// Whether a layer has anything to get ready before the first pass at a shape.
  static constexpr bool prepares(int begin_leaf, int end_leaf) {
    return std::any_of(plan::tree.leaves.begin() + begin_leaf, plan::tree.leaves.begin() + end_leaf,
                       [](leaf_info const& leaf) { return leaf.has_prepare; });
  }
  [[gnu::cold]] void prepare_layers() {
    context().sequence = plan::sequence_length;
    context().batch = memory_.rows() / plan::sequence_length;
    for (int chunk = 0; chunk < plan::chunks; ++chunk) {
      auto const units = enter(pass_place{.chunk = chunk});
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        in_order{(prepare_item<int(I)>(units, steps_of<int(I)>{}), 0)...};
      }(item_numbers{});
    }
  }
  template <int Item, std::size_t... I>
  [[gnu::cold]] void prepare_item([[maybe_unused]] unit_range units, std::index_sequence<I...>) {
    if constexpr (prepares(code.items[Item].first_leaf, code.items[Item].end_leaf)) {
      int const unit = within(code.items[Item], units).begin;
      if (unit >= within(code.items[Item], units).end) return;
      enter_item(Item, unit);
      pass_frame const frame{
          .unit = unit, .input = activations_of(unit), .output = activations_of(unit)};
      constexpr int first = code.items[Item].first_step;
      in_order{(unit_.template prepare_step<first + int(I)>(frame), 0)...};
    }
  }

  memory_type memory_;
  unit_runner<Job, Rank> unit_;
  lean_vector<unit_place> places_{};  // of the units of the model
  // Of the pass that runs.
  chunk_arena const* chunk_ = nullptr;
  std::byte *activations_ = nullptr, *gradient_stash_ = nullptr;
  std::byte* of_chunk_input_ = nullptr;
  bool runs_again_ = false;
  int edge_ = 0;               // the place that the gradient of the next unit's input gets
  std::byte* made_ = nullptr;  // the gradient that the last unit has made
  std::byte const* model_output_ = nullptr;
};

}  // namespace plait::execution
