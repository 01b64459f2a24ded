// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "plait/core/namespaces.hpp"
#include "plait/run/body.hpp"
#include "plait/run/context.hpp"
#include "plait/run/layer_views.hpp"
#include "plait/run/listed_operations.hpp"
#include "plait/run/operations.hpp"
#include "plait/run/term_operations.hpp"
#include "plait/tensor/view.hpp"

namespace plait::execution {

/// The addresses of the gradients that a body of a layer reads and writes.
struct gradient_place {
  std::byte* dy = nullptr;
  std::byte* dx = nullptr;
  std::byte* added = nullptr;  ///< if dx is the sum of a residual's gradients: the address of the
                               ///< other summand
  /// Gradients of the inputs after the first.
  std::array<std::byte*, ext::input_placements::most_more> more{};
};

/// Calls the bodies (forward and backward functions) of a layer in one of its forms. A body takes
/// typed views, with placements, shapes and elements, but a pass knows only addresses. So the
/// invoker makes the views from two sources: the placements of the form, which are known at compile
/// time, and the addresses in a leaf_place. The invoker does not know the model or the layer's
/// position in the model, so equal layers share the invoker's code. For example, the two layer
/// norms of a GPT block have one type and one form, so they share one instantiation, and each call
/// passes the addresses of its own input and parameters.
///
/// If a product also computes the element-wise layer next to it (its epilogue), the invoker adds
/// the operand of the epilogue to the view of the product's result. It reports an error if the
/// layer lacks a body, or if a body has not made all moves between placements that the form lists.
///
/// Cost: all layers of one type in one form call the same code. If a model has few of them,
///       compilers inline the body into the step.
template <class Setting, class Rank, class Formed, int More = 0>
struct layer_invoker {
  using layer = typename Formed::layer;
  using element = typename Setting::element;
  using place = leaf_place<Setting>;
  using operations_type =
      std::conditional_t<Formed::info.has_term(), term_operations<Rank>, operations<Rank>>;
  using parameters = parameter_access<Setting, Formed, false>;
  struct no_parameters {
    stage_buffers<Setting> const& stage;
    parameter_place const* places;
    template <class Parameter>
    auto operator[](Parameter of) const {
      static_assert(sizeof(Parameter) == 0,
                    "p[Parameter{}] in backward_parameters: the layer's input needs no gradient, "
                    "so zero<3> does not gather its parameters for the backward; save the values "
                    "that the body needs in a slot of saved<...>");
      return parameters{stage, places}[of];
    }
  };
  using gradients = parameter_access<Setting, Formed, true>;
  using written = slot_access<Setting, Formed, More, false>;
  using read = slot_access<Setting, Formed, More, true>;
  using scratch = slot_access<Setting, Formed, More, false, slot_list::scratch>;

  /// Returns the view that the layer writes, together with the operand of the epilogue if there is
  /// one. For a loss, returns the address of the loss's sum instead. `other`: the address to which
  /// the epilogue writes, or the address of the summand that the epilogue adds.
  template <class Epilogue>
  static auto output(place const& at, layer_context const& context,
                     [[maybe_unused]] std::byte* other) {
    if constexpr (Formed::info.is_loss) {
      return context.loss;
    } else {
      using seen = value_view<Setting, Formed::y_kind, Formed::y_at, false>;
      auto const y = view_at<Setting, seen>(at.y, Formed::y, at.stage.rows);
      if constexpr (std::is_same_v<Epilogue, no_epilogue>) {
        return y;
      } else if constexpr (std::is_same_v<Epilogue, node_sum>) {
        return summed_view<seen>{y, view_at<Setting, seen>(other, Formed::y, at.stage.rows), y};
      } else {
        using seen_mapped = value_view<Setting, Epilogue::y_kind, Epilogue::y_at, false>;
        return mapped_view<seen, typename Epilogue::layer::function>{
            y, view_at<Setting, seen_mapped>(other, Epilogue::y, at.stage.rows)};
      }
    }
  }
  template <class Epilogue>
  static auto forward_views(place const& at, layer_context const& context, std::byte* other) {
    return forward_body{parameters{at.stage, at.parameters},
                        input_of<Setting, Formed, More>(at),
                        output<Epilogue>(at, context, other),
                        written{at},
                        scratch{at},
                        context};
  }

  /// Calls `forward`. `other` is the argument of output().
  template <class Epilogue>
  static void forward(operations_type const& with, place const& at, std::byte* other) {
    listed_operations<operations_type, element, Formed> ops(with);
    auto const l = forward_views<Epilogue>(at, ops.context, other);
    constexpr bool can_be_called = requires { layer::forward(ops, l); };
    check_body<layer, can_be_called>();
    if constexpr (can_be_called) layer::forward(ops, l);
    if constexpr (Formed::form.inner_count > 0) ops.require_all_moves();
  }

  /// Returns the gradient of the layer's output: a view or, for a loss, the factor by which the
  /// loss multiplies its gradient.
  static auto output_gradient(place const& at, layer_context const& context, std::byte* dy) {
    if constexpr (Formed::info.is_loss) return seed_of(context.loss);
    else
      return view_at<Setting, gradient_view<Setting, Formed::y_at, true>>(dy, Formed::y,
                                                                          at.stage.rows);
  }

  /// Returns the gradients of the inputs, which the layer writes: one view, a view for each of
  /// several inputs, or a view together with the operand of the epilogue.
  template <class Epilogue>
  static auto input_gradient(gradient_place const& of, std::size_t rows,
                             [[maybe_unused]] place const* epilogue,
                             [[maybe_unused]] std::byte* mapped) {
    using seen = gradient_view<Setting, Formed::x_at, false>;
    auto const dx = view_at<Setting, seen>(of.dx, Formed::x, rows);
    if constexpr (More > 0) {
      return several_inputs<More>(dx, [&]<std::size_t I> {
        using seen_too = gradient_view<Setting, Formed::inputs_at[I + 1], false>;
        return view_at<Setting, seen_too>(of.more[I], Formed::template input<I + 1>, rows);
      });
    } else if constexpr (std::is_same_v<Epilogue, no_epilogue>) {
      return dx;
    } else if constexpr (std::is_same_v<Epilogue, node_sum>) {
      return summed_view<seen>{dx, view_at<Setting, seen>(of.added, Formed::x, rows),
                               view_at<Setting, seen>(mapped, Formed::x, rows)};
    } else {
      using elementwise = typename Epilogue::layer;
      using seen_mapped = gradient_view<Setting, Epilogue::x_at, false>;
      auto const kept =
          slot_access<Setting, Epilogue, 0, true>{*epilogue}[typename elementwise::kept{}];
      return mapped_view<seen, typename elementwise::derivative, decltype(kept)>{
          dx, view_at<Setting, seen_mapped>(mapped, Epilogue::x, rows), {}, kept};
    }
  }
  /// Calls `backward_input`, or `backward` if the layer lacks backward_input. If `Joint` is true,
  /// calls `backward`, which also adds the gradients of the parameters. `epilogue`: the addresses
  /// of the element-wise layer that is the epilogue; `mapped`: the address of the epilogue's
  /// output.
  template <class Epilogue, bool Joint>
  static void backward_input(operations_type& ops, place const& at, gradient_place const& of,
                             place const* epilogue, std::byte* mapped) {
    constexpr auto this_body = layer_body::backward_input;
    constexpr bool is_listed =
        Formed::form.moves_in(this_body) || Formed::form.sums_over_samples(this_body);
    using listed = listed_operations<operations_type, element, Formed, this_body>;
    std::conditional_t<is_listed, listed, operations_type&> with(ops);
    parameters const p{at.stage, at.parameters};
    auto const dy = output_gradient(at, ops.context, of.dy);
    auto const dx = input_gradient<Epilogue>(of, at.stage.rows, epilogue, mapped);
    if constexpr (Joint) {
      backward_body const l{p,        dy,          dx,         gradients{at.stage, at.parameters},
                            read{at}, scratch{at}, ops.context};
      constexpr bool can_be_called = requires { layer::backward(with, l); };
      check_body<layer, can_be_called>();
      if constexpr (can_be_called) layer::backward(with, l);
      with.require_begun();
    } else {
      backward_input_body const l{p, dy, dx, read{at}, scratch{at}, ops.context};
      if constexpr (Formed::info.has_backward_input) {
        constexpr bool can_be_called = requires { layer::backward_input(with, l); };
        check_body<layer, can_be_called>();
        if constexpr (can_be_called) layer::backward_input(with, l);
      } else {
        constexpr bool can_be_called = requires { layer::backward(with, l); };
        check_body<layer, can_be_called>();
        if constexpr (can_be_called) layer::backward(with, l);
      }
    }
    if constexpr (is_listed) with.require_all_moves();
  }

  /// Calls `forward_backward` of a loss, which computes the loss and its gradient at once.
  static void forward_backward(operations_type& ops, place const& at, gradient_place const& of) {
    auto const x = input_of<Setting, Formed, More>(at);
    auto const dx = input_gradient<no_epilogue>(of, at.stage.rows, nullptr, nullptr);
    forward_backward_body const l{parameters{at.stage, at.parameters},
                                  x,
                                  ops.context.loss,
                                  seed_of(ops.context.loss),
                                  dx,
                                  written{at},
                                  scratch{at},
                                  ops.context};
    constexpr bool can_be_called = requires { layer::forward_backward(ops, l); };
    check_body<layer, can_be_called>();
    if constexpr (can_be_called) layer::forward_backward(ops, l);
  }

  /// Calls `backward_parameters`, or `backward` if the layer lacks backward_parameters.
  /// `HasParameters`: true if the body may read the parameters.
  template <bool HasParameters>
  static void backward_parameters(operations_type& ops, place const& at, std::byte* dy) {
    using seen = std::conditional_t<HasParameters, parameters, no_parameters>;
    backward_parameters_body const l{seen{at.stage, at.parameters},
                                     output_gradient(at, ops.context, dy),
                                     gradients{at.stage, at.parameters},
                                     read{at},
                                     scratch{at},
                                     ops.context};
    if constexpr (Formed::info.has_backward_parameters) {
      constexpr bool can_be_called = requires { layer::backward_parameters(ops, l); };
      check_body<layer, can_be_called>();
      if constexpr (can_be_called) layer::backward_parameters(ops, l);
    } else {
      constexpr bool can_be_called = requires { layer::backward(ops, l); };
      check_body<layer, can_be_called>();
      if constexpr (can_be_called) layer::backward(ops, l);
    }
    ops.require_begun();
  }

  static void prepare(operations_type ops, place const& at) {
    layer::prepare(ops, forward_views<no_epilogue>(at, ops.context, nullptr));
  }
};

}  // namespace plait::execution
