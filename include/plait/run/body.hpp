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

// A body takes (ops, l). Layers may also take the members one by one, as the first version of the
// protocol had it; scratch is then read through `saved`.

template <class L, bool CanBeCalled>
consteval void check_body() {
  static_assert(CanBeCalled,
                "a body of this layer cannot be called: write `static void forward(auto& ops, auto "
                "l)`, backward_input and backward_parameters likewise; they are static and take "
                "two arguments");
}

template <class L, class Ops, class Body>
void call_forward(Ops& ops, Body const& l) {
  if constexpr (requires { L::forward(ops, l); }) {
    L::forward(ops, l);
  } else {
    constexpr bool in_order = requires { L::forward(ops, l.p, l.x, l.y, l.saved.and_scratch()); };
    check_body<L, in_order>();
    if constexpr (in_order) L::forward(ops, l.p, l.x, l.y, l.saved.and_scratch());
  }
}
template <class L, class Ops, class Body>
void call_backward_input(Ops& ops, Body const& l) {
  if constexpr (requires { L::backward_input(ops, l); }) {
    L::backward_input(ops, l);
  } else {
    constexpr bool in_order =
        requires { L::backward_input(ops, l.p, l.saved.and_scratch(), l.dy, l.dx); };
    check_body<L, in_order>();
    if constexpr (in_order) L::backward_input(ops, l.p, l.saved.and_scratch(), l.dy, l.dx);
  }
}
template <class L, class Ops, class Body>
void call_backward_parameters(Ops& ops, Body const& l) {
  if constexpr (requires { L::backward_parameters(ops, l); }) {
    L::backward_parameters(ops, l);
  } else {
    constexpr bool in_order =
        requires { L::backward_parameters(ops, l.p, l.saved.and_scratch(), l.dy, l.dp); };
    check_body<L, in_order>();
    if constexpr (in_order) L::backward_parameters(ops, l.p, l.saved.and_scratch(), l.dy, l.dp);
  }
}

}  // namespace plait::execution
