// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

// These functions and concepts search a layer for members by name, without instantiating the
// functions of the layer (bodies). They find the bodies, and misspelt members, which plait would
// silently ignore.
namespace plait::detail {

struct body_names {
  int forward, backward, backward_input, backward_parameters, forward_backward, count, prepare;
  int formula;
  int backwards, backward_inputs, backward_parameter;  // misspelt names of bodies
};

/// A type that derives from L and adds a second member for each name of a body, so that any member
/// of L with that name becomes ambiguous. There is no other way to find a function template with
/// any number of `auto` parameters.
template <class L>
struct body_probe : L, body_names {};

struct any_argument {};

template <class L>
  requires std::is_final_v<L>
struct body_probe<L> {};

/// Each of these functions returns true if L has the body in the function's name, here `forward`. A
/// type cannot derive from a final L, so a final L is tested with a call with each possible number
/// of arguments. This does not instantiate the body either.
template <class L>
constexpr bool has_forward() {
  if constexpr (std::is_final_v<L>)
    return requires(any_argument& a) { L::forward(a, a); } ||
           requires(any_argument& a) { L::forward(a, a, a, a, a); };
  else return !requires { body_probe<L>::forward; };
}
template <class L>
constexpr bool has_backward() {
  if constexpr (std::is_final_v<L>) return requires(any_argument& a) { L::backward(a, a); };
  else return !requires { body_probe<L>::backward; };
}
template <class L>
constexpr bool has_backward_input() {
  if constexpr (std::is_final_v<L>)
    return requires(any_argument& a) { L::backward_input(a, a); } ||
           requires(any_argument& a) { L::backward_input(a, a, a, a, a); };
  else return !requires { body_probe<L>::backward_input; };
}
template <class L>
constexpr bool has_backward_parameters() {
  if constexpr (std::is_final_v<L>)
    return requires(any_argument& a) { L::backward_parameters(a, a); } ||
           requires(any_argument& a) { L::backward_parameters(a, a, a, a, a); };
  else return !requires { body_probe<L>::backward_parameters; };
}
template <class L>
constexpr bool has_any_forward_backward() {
  if constexpr (std::is_final_v<L>) return requires(any_argument& a) { L::forward_backward(a, a); };
  else return !requires { body_probe<L>::forward_backward; };
}
/// Returns true if L itself declares a forward_backward. An inherited forward_backward does not
/// count, because the derived layer may have replaced its other bodies.
template <class L>
constexpr bool has_forward_backward() {
  if constexpr (requires { typename L::joint_body_of; })
    return std::is_same_v<typename L::joint_body_of, L> && has_any_forward_backward<L>();
  else return false;
}
template <class L>
constexpr bool has_count() {
  if constexpr (std::is_final_v<L>) return requires { &L::count; };
  else return !requires { body_probe<L>::count; };
}
template <class L>
constexpr bool has_prepare() {
  if constexpr (std::is_final_v<L>) return requires(any_argument& a) { L::prepare(a, a); };
  else return !requires { body_probe<L>::prepare; };
}

/// A type that has a member named `formula`.
template <class L>
concept has_formula =
    std::is_class_v<L> && !std::is_final_v<L> && !requires { body_probe<L>::formula; };
/// A type that is written as a formula: it has `formula` and `input`, and does not declare itself a
/// layer.
template <class L>
concept is_formula =
    !requires { typename L::concept_tag; } && requires { typename L::input; } && has_formula<L>;

// Returns true if a layer has a body with the misspelt name `backwards` and lacks all correct
// backward bodies. The next functions look for other misspelt names.
template <class L>
constexpr bool has_backwards_for_backward() {
  if constexpr (std::is_final_v<L>) return false;
  else
    return !requires { body_probe<L>::backwards; } && !has_backward<L>() &&
           !has_backward_input<L>() && !has_backward_parameters<L>();
}
template <class L>
constexpr bool has_backward_inputs() {
  if constexpr (std::is_final_v<L>) return false;
  else return !requires { body_probe<L>::backward_inputs; } && !has_backward_input<L>();
}
template <class L>
constexpr bool has_backward_parameter() {
  if constexpr (std::is_final_v<L>) return false;
  else return !requires { body_probe<L>::backward_parameter; } && !has_backward_parameters<L>();
}

// True if L has the misspelt member `form` and lacks the correct member `forms`; the next concepts
// look for other misspelt members. A misspelt member is reported only if the correct member is
// missing, because a layer may give any names to members of its own. A layer that is itself called
// `form` always has a member of that name, which is its injected class name.
template <class L>
concept has_form_for_forms = requires { typename L::form; } && !requires { typename L::forms; } &&
                             !std::is_base_of_v<typename L::form, L>;
template <class L>
concept has_save_for_saved = requires { typename L::save; } && !requires { typename L::saved; } &&
                             !std::is_base_of_v<typename L::save, L>;
template <class L>
concept has_scratches_for_scratch = requires { typename L::scratches; } && !requires {
  typename L::scratch;
} && !std::is_base_of_v<typename L::scratches, L>;
template <class L>
concept has_parameter_for_parameters = requires { typename L::parameter; } && !requires {
  typename L::parameters;
} && !std::is_base_of_v<typename L::parameter, L>;
template <class L>
concept has_input_type_for_input =
    requires { typename L::input_type; } && !requires { typename L::input; };
template <class L>
concept has_output_type_for_output =
    requires { typename L::output_type; } && !requires { typename L::output; };
template <class L>
concept has_flop_for_flops_per_row =
    requires { L::flop_per_row; } && !requires { L::flops_per_row; };
template <class L>
concept has_unit_for_units = requires { L::unit; } && !requires { L::units; };
template <class L>
concept has_alias_for_may_alias = requires { L::alias; } && !requires { L::may_alias; };

template <class L>
concept has_add_for_adds_to_loss = requires { L::add_to_loss; } && !requires { L::adds_to_loss; };
template <class L>
concept has_weight_for_takes_weights =
    requires { L::takes_weight; } && !requires { L::takes_weights; };

}  // namespace plait::detail
