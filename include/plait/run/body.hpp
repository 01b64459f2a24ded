// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/namespaces.hpp"
#include "plait/run/context.hpp"

namespace plait::execution {

/// The argument `l` of a layer's `forward`. Its members are views of this rank's blocks of the
/// tensors, with the placements of the form that the plan has chosen. For a layer with two inputs
/// `x` is a pair. For a loss `y` is the address to which the layer adds its sum.
template <class Parameters, class Input, class Output, class Saved, class Scratch>
struct forward_body {
  Parameters p;
  Input x;
  Output y;
  Saved saved;  ///< the layer writes these slots
  Scratch scratch;
  layer_context const& context;
};
template <class P, class X, class Y, class V, class W>
forward_body(P, X, Y, V, W, layer_context const&) -> forward_body<P, X, Y, V, W>;

/// The argument `l` of `backward_input`. For a loss `dy` is a loss_seed, the factor by which the
/// layer multiplies its gradient.
template <class Parameters, class OutputGradient, class InputGradient, class Saved, class Scratch>
struct backward_input_body {
  Parameters p;
  OutputGradient dy;
  InputGradient dx;
  Saved saved;  ///< the layer reads these slots
  Scratch scratch;
  layer_context const& context;
};
template <class P, class Y, class X, class V, class W>
backward_input_body(P, Y, X, V, W, layer_context const&) -> backward_input_body<P, Y, X, V, W>;

/// The argument `l` of `backward_parameters`. The layer adds the gradients of its parameters to
/// `dp`.
template <class Parameters, class OutputGradient, class Gradients, class Saved, class Scratch>
struct backward_parameters_body {
  Parameters p;
  OutputGradient dy;
  Gradients dp;
  Saved saved;  ///< the layer reads these slots
  Scratch scratch;
  layer_context const& context;
};
template <class P, class Y, class D, class V, class W>
backward_parameters_body(P, Y, D, V, W, layer_context const&)
    -> backward_parameters_body<P, Y, D, V, W>;

/// The argument `l` of `backward` if both gradients are needed: the layer writes `dx` and adds to
/// `dp`. If only one of the two is needed, the layer gets the argument of backward_input or of
/// backward_parameters instead, which lacks the other member.
template <class Parameters, class OutputGradient, class InputGradient, class Gradients, class Saved,
          class Scratch>
struct backward_body {
  Parameters p;
  OutputGradient dy;
  InputGradient dx;
  Gradients dp;
  Saved saved;  ///< the layer reads these slots
  Scratch scratch;
  layer_context const& context;
};
template <class P, class Y, class X, class D, class V, class W>
backward_body(P, Y, X, D, V, W, layer_context const&) -> backward_body<P, Y, X, D, V, W>;

/// The argument `l` of a loss's `forward_backward`. It has the members of the argument of forward
/// and two more: the factor `dy` by which the layer multiplies the gradient, and the view `dx` to
/// which the layer writes the gradient.
template <class Parameters, class Input, class Output, class OutputGradient, class InputGradient,
          class Saved, class Scratch>
struct forward_backward_body {
  Parameters p;
  Input x;
  Output y;
  OutputGradient dy;
  InputGradient dx;
  Saved saved;  ///< the layer writes these slots
  Scratch scratch;
  layer_context const& context;
};
template <class P, class I, class O, class Y, class X, class V, class W>
forward_backward_body(P, I, O, Y, X, V, W, layer_context const&)
    -> forward_backward_body<P, I, O, Y, X, V, W>;

/// Fails to compile if a body of layer `L` cannot be called. The message describes how to write the
/// body.
template <class L, bool CanBeCalled>
consteval void check_body() {
  static_assert(CanBeCalled,
                "a body of this layer cannot be called: write `static void forward(auto& ops, auto "
                "l)`, and with the same two arguments either backward_input and "
                "backward_parameters, or backward; declare all of them static");
}

}  // namespace plait::execution
