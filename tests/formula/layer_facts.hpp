// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <initializer_list>

#include "plait/formula/layer.hpp"
#include "plait/layer/layer.hpp"

/// The facts of a layer that tests compare.
namespace formula_testing {

template <class L>
inline constexpr auto& info_of = plait::ext::leaf_of<plait::detail::as_layer<L>>;

/// Returns the bytes that are kept for the backward for each row, inputs and output included, in
/// float.
template <class L>
constexpr std::size_t saved_bytes() {
  auto const& info = info_of<L>;
  std::size_t values = 0;
  for (auto const& slot : info.saved.own) values += slot.per_row;
  for (int i = 0; info.saved.keeps_input && i < info.input_count; ++i)
    values += info.inputs[std::size_t(i)].width;
  if (info.saved.keeps_output) values += info.output.width;
  return values * sizeof(float);
}
/// Returns the bytes of scratch for each row, in float.
template <class L>
constexpr std::size_t scratch_bytes() {
  std::size_t values = 0;
  for (auto const& slot : info_of<L>.scratch.own) values += slot.per_row;
  return values * sizeof(float);
}

/// Returns the number of values of scratch that all rows share.
template <class L>
constexpr std::size_t fixed_scratch() {
  std::size_t values = 0;
  for (auto const& slot : info_of<L>.scratch.own) values += slot.fixed;
  return values;
}

/// A form as a test writes it.
struct expected_form {
  plait::ext::name label;
  plait::ext::input_placements inputs;
  plait::placement output;
  std::initializer_list<plait::placement> parameters{};
};

constexpr bool is_form(plait::ext::form_info const& got, expected_form const& expected,
                       int inputs) {
  bool out = got.label == expected.label && got.output == expected.output;
  for (std::size_t i = 0; i < std::size_t(inputs); ++i)
    out = out && got.inputs[i] == expected.inputs[i];
  std::size_t k = 0;
  for (plait::placement const at : expected.parameters) out = out && got.uses[k++] == at;
  return out;
}
/// Returns true if a layer has these forms, in their order.
template <class L>
constexpr bool has_forms(std::initializer_list<expected_form> expected) {
  auto const& info = info_of<L>;
  if (info.forms.size() != int(expected.size())) return false;
  int i = 0;
  for (auto const& each : expected) {
    if (int(each.parameters.size()) != info.parameters.size()) return false;
    if (!is_form(info.forms[i++], each, info.input_count)) return false;
  }
  return true;
}

/// Returns true if two forms place inputs, output and parameters alike, with parameters in their
/// order.
constexpr bool are_alike(plait::ext::form_info const& a, plait::ext::form_info const& b, int inputs,
                         int parameters) {
  bool out = a.output == b.output;
  for (std::size_t i = 0; i < std::size_t(inputs); ++i) out = out && a.inputs[i] == b.inputs[i];
  for (std::size_t k = 0; k < std::size_t(parameters); ++k) out = out && a.uses[k] == b.uses[k];
  return out;
}
/// Returns true if B has each form of A, without regard to labels.
template <class A, class B>
constexpr bool has_all_forms_of() {
  auto const &of = info_of<A>, &in = info_of<B>;
  if (of.input_count != in.input_count || of.parameters.size() != in.parameters.size())
    return false;
  for (auto const& form : of.forms) {
    bool is_found = false;
    for (auto const& other : in.forms)
      is_found = is_found || are_alike(form, other, of.input_count, of.parameters.size());
    if (!is_found) return false;
  }
  return true;
}
template <class A, class B>
inline constexpr bool has_same_forms = has_all_forms_of<A, B>() && has_all_forms_of<B, A>();

}  // namespace formula_testing
