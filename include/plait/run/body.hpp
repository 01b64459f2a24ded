// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/namespaces.hpp"
#include "plait/run/context.hpp"

namespace plait::execution {

/// What `forward` gets beside `ops`: views of this rank's blocks, of the types that the chosen form
/// says. Where a layer has two inputs `x` is a pair; of a loss `y` is where its sum is added.
template <class Parameters, class Input, class Output, class Saved, class Scratch>
struct forward_body {
  Parameters p;
  Input x;
  Output y;
  Saved saved;  ///< to be written
  Scratch scratch;
  layer_context const& context;
};
template <class P, class X, class Y, class V, class W>
forward_body(P, X, Y, V, W, layer_context const&) -> forward_body<P, X, Y, V, W>;

/// What `backward_input` gets. Of a loss `dy` is what its gradient is multiplied by.
template <class Parameters, class OutputGradient, class InputGradient, class Saved, class Scratch>
struct backward_input_body {
  Parameters p;
  OutputGradient dy;
  InputGradient dx;
  Saved saved;  ///< to be read
  Scratch scratch;
  layer_context const& context;
};
template <class P, class Y, class X, class V, class W>
backward_input_body(P, Y, X, V, W, layer_context const&) -> backward_input_body<P, Y, X, V, W>;

/// What `backward_parameters` gets; it adds to `dp`.
template <class Parameters, class OutputGradient, class Gradients, class Saved, class Scratch>
struct backward_parameters_body {
  Parameters p;
  OutputGradient dy;
  Gradients dp;
  Saved saved;  ///< to be read
  Scratch scratch;
  layer_context const& context;
};
template <class P, class Y, class D, class V, class W>
backward_parameters_body(P, Y, D, V, W, layer_context const&)
    -> backward_parameters_body<P, Y, D, V, W>;

/// The `l` of `backward` where both gradients are needed: the layer writes `dx` and adds to `dp`.
/// If only one is needed, the layer gets the `l` of backward_input or backward_parameters, which
/// lacks the other member.
template <class Parameters, class OutputGradient, class InputGradient, class Gradients, class Saved,
          class Scratch>
struct backward_body {
  Parameters p;
  OutputGradient dy;
  InputGradient dx;
  Gradients dp;
  Saved saved;  ///< to be read
  Scratch scratch;
  layer_context const& context;
};
template <class P, class Y, class X, class D, class V, class W>
backward_body(P, Y, X, D, V, W, layer_context const&) -> backward_body<P, Y, X, D, V, W>;

/// The `l` of `forward_backward` of a loss: that of forward, with the seed of the gradient and the
/// view to write the gradient to.
template <class Parameters, class Input, class Output, class OutputGradient, class InputGradient,
          class Saved, class Scratch>
struct forward_backward_body {
  Parameters p;
  Input x;
  Output y;
  OutputGradient dy;
  InputGradient dx;
  Saved saved;  ///< to be written
  Scratch scratch;
  layer_context const& context;
};
template <class P, class I, class O, class Y, class X, class V, class W>
forward_backward_body(P, I, O, Y, X, V, W, layer_context const&)
    -> forward_backward_body<P, I, O, Y, X, V, W>;

/// Says what a body of a layer `L` has to be, where it cannot be called.
template <class L, bool CanBeCalled>
consteval void check_body() {
  static_assert(
      CanBeCalled,
      "a body of this layer cannot be called: write `static void forward(auto& ops, auto "
      "l)`, backward_input and backward_parameters, or backward in their place, likewise; "
      "they are static and take two arguments");
}

}  // namespace plait::execution
