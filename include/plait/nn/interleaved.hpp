// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>

#include "plait/layer/layer.hpp"

namespace plait::nn::detail {

/// True if L is a layer with `forward` and `backward_input`, and no formula or combination of
/// layers.
template <class L>
inline constexpr bool has_own_bodies = [] {
  if constexpr (!layer<L> || requires { typename L::combination; }) return false;
  else
    return plait::detail::has_forward<L>() && plait::detail::has_backward_input<L>() &&
           !plait::detail::has_backward<L>();
}();

template <class L>
inline constexpr bool is_without_parameters = [] {
  if constexpr (has_own_bodies<L>) return plait::detail::lists_of<L>::parameters::size == 0;
  else return true;
}();

template <class A, class B>
inline constexpr bool declare_alike = [] {
  if constexpr (has_own_bodies<A> && has_own_bodies<B>) {
    using of_a = plait::detail::lists_of<A>;
    using of_b = plait::detail::lists_of<B>;
    auto const &a = ext::leaf_of<A>, &b = ext::leaf_of<B>;
    return std::is_same_v<typename A::input, typename B::input> &&
           std::is_same_v<typename A::output, typename B::output> &&
           std::is_same_v<typename of_a::forms, typename of_b::forms> &&
           std::is_same_v<typename of_a::saved, typename of_b::saved> &&
           std::is_same_v<typename of_a::scratch, typename of_b::scratch> &&
           a.sequence == b.sequence && a.units == b.units && a.mixes_samples == b.mixes_samples &&
           a.takes_documents == b.takes_documents;
  } else return true;
}();

}  // namespace plait::nn::detail

namespace plait::nn {

/// Alternates two layers in the copies of a repeat: of every `Period` copies, the last one has the
/// layer `Last`, and the others have the layer `L`. For example, five of six blocks of Gemma 3 have
/// attention with a window, and the sixth has attention to all earlier positions. The block remains
/// one type, so parameter names contain the number of the copy, and each copy is a unit of the
/// pipeline. The number of copies need not be a multiple of `Period`. Outside of a repeat, the
/// layer is L, or Last if `Period` is 1.
///
/// L and Last have no parameters, and declare the same types, forms and slots. They differ only in
/// options that do not change these declarations, such as the window of an attention.
///
/// Shapes: as L.
/// Moves:  as L.
///
/// Example (tests/reference/names_in_use_test.cpp interleaved):
///     using heads =
///         plait::nn::interleaved<6, plait::nn::attention<4, 1, 16, 128, {.window = 32}>,
///                                plait::nn::attention<4, 1, 16, 128>>;
template <std::size_t Period, class L, class Last>
struct interleaved {
  static_assert(Period > 0,
                "interleaved<Period, L, Last>: Period is 0; write 6 if every sixth copy of the "
                "block has the layer Last");
  static_assert(detail::has_own_bodies<L> && detail::has_own_bodies<Last>,
                "interleaved<Period, L, Last>: L or Last is a formula, a combination of layers, or "
                "a layer with `backward`; write two layers with `forward` and `backward_input`, "
                "such as nn::attention or nn::rotary");
  static_assert(detail::is_without_parameters<L> && detail::is_without_parameters<Last>,
                "interleaved<Period, L, Last>: L or Last has parameters, but the block has one "
                "list of parameters for all copies; write two layers without parameters");
  static_assert(detail::declare_alike<L, Last>,
                "interleaved<Period, L, Last>: L and Last differ in their declarations (input, "
                "output, forms, saved, scratch, sequence or units), which all copies of a block "
                "share; write two layers that differ only in other options");
  using concept_tag = layer_tag;
  using input = typename L::input;
  using output = typename L::output;
  using forms = typename plait::detail::forms_of<L>::type;
  using saved = typename plait::detail::saved_of<L>::type;
  using scratch = typename plait::detail::scratch_of<L>::type;
  static constexpr std::size_t sequence = ext::leaf_of<L>.sequence;
  static constexpr std::size_t units = ext::leaf_of<L>.units;
  static constexpr std::size_t mixes_samples = ext::leaf_of<L>.mixes_samples;
  static constexpr bool takes_documents = ext::leaf_of<L>.takes_documents;
  static constexpr double flops_per_row =
      (static_cast<double>(Period - 1) * ext::leaf_of<L>.flops_per_row +
       ext::leaf_of<Last>.flops_per_row) /
      static_cast<double>(Period);

  static void prepare(auto& ops, auto const& l) {
    if constexpr (Period > 1 && plait::detail::has_prepare<L>()) L::prepare(ops, l);
    if constexpr (plait::detail::has_prepare<Last>()) Last::prepare(ops, l);
  }
  static void forward(auto& ops, auto const& l) {
    if (is_last(l)) Last::forward(ops, l);
    else L::forward(ops, l);
  }
  static void backward_input(auto& ops, auto const& l) {
    if (is_last(l)) Last::backward_input(ops, l);
    else L::backward_input(ops, l);
  }

 private:
  static bool is_last(auto const& l) {
    return (static_cast<std::size_t>(l.context.copy) + 1) % Period == 0;
  }
};

}  // namespace plait::nn
