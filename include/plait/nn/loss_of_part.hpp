// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "plait/backend/element_place.hpp"
#include "plait/core/error.hpp"
#include "plait/core/macros.hpp"
#include "plait/layer/layer.hpp"
#include "plait/nn/slice.hpp"
#include "plait/run/body.hpp"
#include "plait/tensor/view.hpp"

namespace plait::nn {

/// The part of a row that loss_of_part passes to its loss: a range of the model's outputs and a
/// range of the targets.
struct part_of_row {
  std::size_t outputs =
      0;  ///< number of outputs per row of the model's result; 0: as many as the loss reads
  std::size_t first_output = 0;  ///< index of the first output that the loss reads
  std::size_t targets = 0;       ///< number of targets (real numbers) in a row of the data set
  std::size_t first_target = 0;  ///< index of the first target that the loss reads
};

namespace detail {

template <class Loss>
struct part_inputs;
template <class X, class Targets>
struct part_inputs<inputs<X, Targets>> {
  static constexpr ext::value_info x = X::info, targets = Targets::info;
};

template <class Scratch, class... More>
struct joined_scratch;
template <class... Slots, class... More>
struct joined_scratch<plait::scratch<Slots...>, More...> {
  using type = plait::scratch<Slots..., More...>;
};

/// Returns the class that a real number represents; ext::ignored_target if the number does not
/// represent a class.
template <class T>
PLAIT_HOST_DEVICE constexpr std::int32_t class_of_number(T number) {
  return number >= 0 && number < T{1 << 24} ? static_cast<std::int32_t>(number)
                                            : ext::ignored_target;
}
struct class_at {
  std::size_t column;
  PLAIT_HOST_DEVICE double operator()(plait::ext::element_place const&, auto const& targets) const {
    return class_of_number(targets[column]);
  }
};

template <std::size_t Outputs, std::size_t FirstOutput, std::size_t Taken, std::size_t Targets,
          std::size_t FirstTarget, std::size_t TakenTargets>
consteval void check_part() {
  static_assert(
      FirstOutput + Taken <= Outputs,
      "loss_of_part<Loss, {.outputs, .first_output}>: Loss reads Taken outputs, beginning with "
      "number FirstOutput, but a row has only Outputs outputs; correct one of these numbers");
  static_assert(
      FirstTarget + TakenTargets <= Targets,
      "loss_of_part<Loss, {.targets, .first_target}>: Loss reads TakenTargets targets, beginning "
      "with number FirstTarget, but a row has only Targets targets; correct one of these numbers");
}

}  // namespace detail

/// Applies `Loss` to some outputs and some targets of each row. With it, the losses of a sum_of can
/// have targets of different kinds, such as a class and a real number. The targets are real numbers
/// in the data set. If Loss takes classes, a target is the number of a class, stored as a whole
/// number less than 2^24. A target that is NaN does not contribute to the loss.
///
/// Shapes: x (rows, outputs), targets (rows, targets).
/// Moves:  nothing; if Loss takes only some of the outputs, the outputs are whole on every tensor
///         rank.
///
/// Example (tests/reference/names_in_use_test.cpp loss_of_part):
///     using both = plait::sum_of<  // 4 outputs: logits of 3 classes, and a number
///         plait::nn::loss_of_part<plait::nn::cross_entropy<3>, {.outputs = 4, .targets = 2}>,
///         plait::nn::loss_of_part<
///             plait::nn::mse<1>,
///             {.outputs = 4, .first_output = 3, .targets = 2, .first_target = 1}>>;
template <class Loss, part_of_row Part>
struct loss_of_part {
  using parts = detail::part_inputs<typename Loss::input>;
  static constexpr std::size_t taken = parts::x.width, taken_targets = parts::targets.width;
  static constexpr std::size_t outputs = Part.outputs == 0 ? taken : Part.outputs;
  static constexpr bool of_classes = parts::targets.kind == ext::value_kind::tokens;
  static_assert(!of_classes || taken_targets == 1,
                "loss_of_part<Loss, Part>: Loss reads several integers for each row; use a loss "
                "whose targets are plait::tokens or plait::reals<W>");
  static_assert((detail::check_part<outputs, Part.first_output, taken, Part.targets,
                                    Part.first_target, taken_targets>(),
                 true));
  static constexpr bool takes_all = taken == outputs;

  using concept_tag = layer_tag;
  using input = inputs<features<outputs>, reals<Part.targets>>;
  using output = loss_value;
  using forms = std::conditional_t<takes_all, typename plait::detail::forms_of<Loss>::type,
                                   plait::forms<whole>>;
  using saved = typename plait::detail::saved_of<Loss>::type;
  using own_targets = slot<"own_targets", taken_targets, slot_element::accumulate>;
  using own_x = slot<"own_x", takes_all ? 0 : taken>;
  using own_dx = slot<"own_dx", takes_all ? 0 : taken>;
  using scratch = typename detail::joined_scratch<typename plait::detail::scratch_of<Loss>::type,
                                                  own_targets, own_x, own_dx>::type;
  static constexpr double flops_per_row = ext::leaf_of<Loss>.flops_per_row;
  static constexpr bool takes_weights = ext::leaf_of<Loss>.takes_weights;
  static constexpr std::size_t mixes_samples = ext::leaf_of<Loss>.mixes_samples;
  static constexpr std::size_t sequence = ext::leaf_of<Loss>.sequence;

  /// Returns the number of targets that contribute to Loss, or the sum of their weights if Loss is
  /// weighted.
  ///
  /// Errors: as Loss; input_error for a class that is not a whole number, and for a class that is
  ///         not below the `classes` of Loss, unless Loss ignores it.
  template <class T>
  static auto count(std::span<T const> targets) {
    decltype(count_of_row(targets)) sum{};
    for (std::size_t first = 0; first < targets.size(); first += Part.targets)
      sum += count_of_row(targets.subspan(first + Part.first_target, taken_targets));
    return sum;
  }

  static void forward(auto& ops, auto const& l) {
    auto const& [all, targets] = l.x;
    auto const own = own_inputs(ops, all, targets, l.scratch);
    Loss::forward(ops, execution::forward_body{l.p, own, l.y, l.saved, l.scratch, l.context});
  }
  static void backward_input(auto& ops, auto const& l) {
    auto const& [all, targets] = l.saved[input_slot{}];
    auto const own = own_inputs(ops, all, targets, l.scratch);
    saved_part<decltype(own), std::remove_cvref_t<decltype(l.saved)>> const saved{own, l.saved};
    auto const differentiate = [&](auto const& dx) {
      Loss::backward_input(
          ops, execution::backward_input_body{l.p, l.dy, dx, saved, l.scratch, l.context});
    };
    if constexpr (takes_all) {
      differentiate(l.dx);
    } else {
      auto const dx = l.scratch[own_dx{}];
      differentiate(dx);
      ops.map_at(detail::columns_at{Part.first_output, taken}, l.dx, dx);
    }
  }

 private:
  template <class Own, class Saved>
  struct saved_part {
    Own own;
    Saved all;
    auto operator[](input_slot) const { return own; }
    auto operator[](auto slot) const { return all[slot]; }
  };

  /// Returns the outputs and targets that are passed to Loss.
  static auto own_inputs(auto& ops, auto const& all, auto const& targets, auto const& scratch) {
    return std::pair{outputs_of(ops, all, scratch), targets_of(ops, targets, scratch)};
  }
  static auto outputs_of(auto& ops, auto const& all, auto const& scratch) {
    if constexpr (takes_all) {
      return all;
    } else {
      auto const room = scratch[own_x{}];
      ops.map_at(detail::columns_from{Part.first_output}, room, all);
      return read_only(room);
    }
  }
  static auto targets_of(auto& ops, auto const& all, auto const& scratch) {
    auto const room = scratch[own_targets{}];
    using view_type = std::remove_cvref_t<decltype(room)>;
    if constexpr (of_classes) {
      using memory = typename view_type::memory;
      view<std::int32_t, view_type::at, memory> const labels{
          reinterpret_cast<std::int32_t*>(room.data), room.rows, 1};
      ops.map_at(detail::class_at{Part.first_target}, labels, all);
      return token_view<memory>{labels.data, labels.rows};
    } else {
      ops.map_at(detail::columns_from{Part.first_target}, room, all);
      return read_only(room);
    }
  }
  template <class T, placement At, class Memory>
  static view<T const, At, Memory> read_only(view<T, At, Memory> const& of) {
    return of;
  }

  template <class T>
  static auto count_of_row(std::span<T const> of_row) {
    if constexpr (of_classes) {
      std::int32_t const label = detail::class_of_number(of_row[0]);
      if (!std::isnan(of_row[0]) && static_cast<T>(label) != of_row[0])
        throw input_error({"loss_of_part: the target ", std::to_string(of_row[0]), " in column ",
                           Part.first_target,
                           " is not a class; write classes as whole numbers from 0 to 2^24, or nan "
                           "for a row that must not contribute to the loss"});
      auto const counted = Loss::count(std::span<std::int32_t const>(&label, 1));
      if constexpr (requires { Loss::classes; })
        if (counted > 0 && static_cast<std::uint32_t>(label) >= Loss::classes)
          throw input_error({"loss_of_part: the target ", label, " in column ", Part.first_target,
                             " is not one of the ", Loss::classes, " classes"});
      return counted;
    } else {
      return Loss::count(of_row);
    }
  }
};

}  // namespace plait::nn
