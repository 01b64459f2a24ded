// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>

#include "plait/core/number_range.hpp"
#include "plait/core/precision.hpp"
#include "plait/layer/layer.hpp"
#include "plait/testing/layer_checker.hpp"
#include "plait/testing/layer_forms.hpp"
#include "plait/testing/layer_options.hpp"
#include "plait/testing/report.hpp"

namespace plait::testing {

/// The number of rows with which `check_layer` runs a layer. It is the number of samples times the
/// number of positions. There are 3 samples, or two groups if the layer mixes the samples of a
/// group. The number of positions is the layer's `sequence`, or 12 if the layer has none. A row has
/// the number position * samples + sample.
template <class L>
inline constexpr std::size_t checked_rows = detail::sequence_for<L> * detail::samples_for<L>;

/// Runs a layer, a loss layer or a combination of layers in each of its forms on 1, 2, 3 and 4
/// tensor ranks, in double on the threads backend. Numbers of ranks that do not divide the form's
/// dimensions are left out. If all ranks do the same work in a form, it runs on 1 and 2 ranks only;
/// if a form requires a larger multiple of ranks, it also runs on that number. The check reports
/// each violation of these laws:
///
/// - output, input gradient and parameter gradients equal the results of the `whole` form on one
///   rank, to 1e-10 of the largest element, and have equal bits on all ranks that hold them;
/// - the gradients equal the central finite differences of the output with respect to inputs and
///   parameters, to 1e-6 of the largest element;
/// - a loss, or a layer's term in the loss, is proportional to `context.loss.scale` and equal in
///   all forms; a loss with `takes_weights` multiplies the gradient of each row by the row's
///   weight, and weights of 1 change nothing;
/// - no sample's output or input gradient depends on another sample of the batch, or on a sample of
///   another group if the layer has `mixes_samples`;
/// - the same samples in batches of other sizes and in another order, as happens with ranks and
///   microbatches, have equal outputs and input gradients, and the parameter gradients and losses
///   of these batches add up to the gradients and the loss of one batch: no result depends on the
///   number of a local row or on `context.batch`. If a layer sums over samples, two data ranks that
///   share the samples have the results of one rank with all samples;
/// - if a batch or a group is not full, the places without a sample at its end have gradient 0 and
///   affect no other gradient, and a batch may have no sample at all;
/// - the `count` of a loss adds up over rows and pieces of a batch. The gradient is 0 in rows whose
///   targets do not count: labels that are `ext::ignored_target`, and real targets that are NaN, if
///   `count` leaves them out. A label outside the columns of a row is refused by `count`, or by
///   trainers if the loss has `classes`; otherwise the loss does not read past its row;
/// - parameter gradients are added to the previous values;
/// - `may_alias` is correct: shared buffers change no result;
/// - a layer with `backward` computes the same gradients if only the input gradient or only the
///   parameter gradients are needed (as in a first layer, a frozen layer, or under a schedule that
///   splits the backward into halves), by `backward` or by backward_input and backward_parameters;
/// - no value is read that was not written: unused memory is filled with NaN;
/// - the layer's functions make the communication that their form lists, and the communicators
///   count as many bytes as the plan lists.
///
/// If several inputs of a layer are tokens, they have equal values.
///
/// The layer under test is preceded by a layer with parameters, so its `backward_input` is compiled
/// and checked. A job neither compiles nor calls `backward_input` if the layer is the first of its
/// model.
///
/// `check_layer<L, float>` and `check_layer<L, precision<bfloat16, float>>` check all these laws in
/// double. They then run each form in the given type, on the smallest of these numbers of ranks
/// that divides the form's dimensions, and compare with the results in double: to 1e-5 and to 0.03
/// of the largest element, respectively. The other laws hold there, too, except finite differences,
/// which are checked only in double.
///
/// Inputs and parameters have numbers of both signs. If the layer's results are not finite with
/// these numbers, each parameter with a constant initializer gets numbers of the constant's sign.
///
/// If L is a combination of layers, the check runs the forms that the planner chooses, with and
/// without sequence sharding.
/// Frozen parameters have no gradient to check.
/// Layers that draw random numbers can be checked, because they draw equal numbers each time.
/// Cost:   one compilation of the code of a step for each form and number of ranks, about 0.6 s
///         each.
template <class L, class Element = double>
check_report check_layer(layer_options const& options = {}) {
  static_assert(
      layer<L>,
      "check_layer<L>: L is not a layer; it needs `using concept_tag = plait::layer_tag;`, "
      "`using input = ...;` and `using output = ...;`");
  require_range("layer_options::token_count", options.token_count, number_ranges::at_least_0);
  require_range("layer_options::differences", double(options.differences),
                number_ranges::at_least_1);
  static_assert((plait::detail::check_is_layer<L>(), true));
  using checked = plait::detail::as_layer<L>;
  static_assert(detail::takes_what_layers_make<checked>,
                "check_layer<L>: the `input` of L contains plait::reals<W> or plait::integers<W>, "
                "which only a loss receives from a data set, and L is not a loss; declare "
                "plait::features<W> or plait::tokens as `input`");
  check_report report;
  if constexpr (detail::takes_what_layers_make<checked>) {
    report = detail::layer_checker<checked>(options).report();
    using compute = typename ext::precision_of<Element>::compute;
    if constexpr (!std::is_same_v<compute, double>)
      report.add(detail::precision_checker<checked, Element>(options).report());
  }
  return report;
}

}  // namespace plait::testing
