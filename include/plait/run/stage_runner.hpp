// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include "plait/core/type_list.hpp"
#include "plait/plan/parallel.hpp"
#include "plait/run/item_runner.hpp"
#include "plait/run/pass_frame.hpp"
#include "plait/run/stage_memory.hpp"
#include "plait/run/step_code.hpp"

namespace plait::execution {

/// Runs the forward and the backward of the units of one pipeline stage on one microbatch, item by
/// item.
///
/// Cost:   no allocation; the only branches are which items the stage has.
/// Threads: used by the one thread that runs the rank.
template <class Job, class Rank>
class stage_runner
    : public item_runner<typename stage_setting_of<Job, typename Rank::device_type::memory>::type,
                         Rank> {
  using base =
      item_runner<typename stage_setting_of<Job, typename Rank::device_type::memory>::type, Rank>;
  using plan = typename Job::plan_type;
  static constexpr int items = plan::code.items.size();
  template <int Item>
  using forward_code = typename item_code_of<plan, Item>::forward;
  template <int Item>
  using backward_code = typename item_code_of<plan, Item>::backward;

 public:
  using typename base::arenas;

  [[gnu::cold]] stage_runner(Rank& rank, workload const& load, arenas const& where)
      : base(rank, stage_memory_for<Job>(rank, load, where), leaf_names(plan::tree)) {
    if constexpr (prepares()) prepare_layers();
  }

  /// What the last forward of the last chunk gave to its loss.
  [[nodiscard]] std::byte const* model_output() const { return model_output_; }

  /// Runs units of a chunk on `input`, which is the chunk's, and returns their output, which lies
  /// in the activation stash. The items from `end_item` on are left out (the loss, when only the
  /// model's output is wanted).
  std::byte* forward(std::byte* input, pass_place const& at, int end_item = items) {
    auto const units = base::enter(at);
    return forward_items(units, base::input_of(units.begin, input), end_item, item_numbers{});
  }

  /// Makes again what the backward of a unit reads and its forward has not kept: the same steps
  /// with the same numbers, but for terms of the loss. `input` and `at` are those of the forward.
  void forward_again(std::byte* input, pass_place const& at) {
    auto const units = base::enter(at);
    auto const* const output = model_output_;
    base::set_runs_again(true);
    forward_items(units, base::input_of(units.begin, input), items, item_numbers{});
    base::set_runs_again(false);
    model_output_ = output;
  }

  /// Runs units of a chunk backward on the gradient of the chunk's output and returns the gradient
  /// of their input; where they are not the last of the chunk, on that of the call before. `to`:
  /// where the gradient of the chunk's input is wanted, if not where units have it in turn.
  ///
  /// `input` and `at` are those of the forward; gradients of parameters are added up.
  std::byte* backward(std::byte* input, pass_place const& at, std::byte* gradient,
                      backward_part part = backward_part::all, std::byte* to = nullptr) {
    auto const units = base::enter(at);
    if constexpr (plan::splits_backward)
      if (part == backward_part::parameters)
        return backward_of_parameters(units, input, item_numbers{}), nullptr;
    return backward_items(units, input, base::begin_backward(units, gradient, to), part,
                          item_numbers{});
  }

 private:
  using item_numbers = std::make_index_sequence<std::size_t(items)>;

  template <std::size_t... I>
  std::byte* forward_items(unit_range units, std::byte* made, int end_item,
                           std::index_sequence<I...>) {
    in_order{(int(I) + 1 == items ? void(model_output_ = made) : void(),  // also without the loss
              int(I) < end_item
                  ? void(made = base::forward_item(forward_code<int(I)>{}, units, made))
                  : void(),
              0)...};
    return made;
  }
  template <std::size_t... I>
  std::byte* backward_items(unit_range units, std::byte* input, std::byte* gradient,
                            backward_part part, std::index_sequence<I...>) {
    in_order{(gradient = base::backward_item(backward_code<items - 1 - int(I)>{}, units, input,
                                             gradient, part),
              0)...};
    return gradient;
  }
  template <std::size_t... I>
  void backward_of_parameters(unit_range units, std::byte* input, std::index_sequence<I...>) {
    in_order{(base::parameters_of_item(backward_code<items - 1 - int(I)>{}, units, input), 0)...};
  }

  /// Whether any layer has anything to get ready before the first pass at a shape.
  static constexpr bool prepares() {
    return std::any_of(plan::tree.leaves.begin(), plan::tree.leaves.end(),
                       [](leaf_info const& leaf) { return leaf.has_prepare; });
  }
  [[gnu::cold]] void prepare_layers() {
    base::context().sequence = plan::sequence_length;
    base::context().batch = base::memory().rows() / plan::sequence_length;
    for (int chunk = 0; chunk < plan::chunks; ++chunk)
      prepare_items(base::enter(pass_place{.chunk = chunk}), item_numbers{});
  }
  template <std::size_t... I>
  [[gnu::cold]] void prepare_items(unit_range units, std::index_sequence<I...>) {
    in_order{(base::prepare_item(forward_code<int(I)>{}, units), 0)...};
  }

  std::byte const* model_output_ = nullptr;
};

}  // namespace plait::execution
