// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>

#include "plait/core/granularity.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/rounded_block.hpp"
#include "plait/mesh/axis.hpp"
#include "plait/mesh/placements.hpp"

namespace plait::planning {
struct parameter_layout;
struct parameters_to_deal;
}  // namespace plait::planning

namespace plait::detail {

/// The greatest allowed sum of the shares of data ranks.
inline constexpr int greatest_sum_of_shares = 1 << 16;

}  // namespace plait::detail

namespace plait::ext {

/// The tag by which a type declares itself a policy: `using concept_tag = plait::ext::policy_tag;`.
struct policy_tag {};

/// A policy describes how the ranks along one axis of a mesh divide samples, parameters and work
/// among themselves. A policy is an empty type with these members:
///
///   using concept_tag = plait::ext::policy_tag;
///   static constexpr axis along                 the role of its axis (optional: it has none)
///   static constexpr int ranks                  how many; at_launch on a data or replica axis
///   static constexpr placement samples          shard<dim::batch> on a data or replica axis
///   static constexpr parameter_rule parameters  placements of parameters on that axis
///   static constexpr std::size_t bucket_bytes   on a data axis (optional): see `buckets`
///   static constexpr static_view<int> shares    on a data axis (optional): see `shares`
///   static constexpr int delayed_steps          on a data axis (optional): see `delayed`
///   static constexpr int local_steps            on a data or replica axis (optional): see
///                                               `local_steps`
///   static constexpr form_cuts forms            on a model axis: dimensions that forms may cut
///   using schedule_type, cuts                   on a stage axis (optional): see `pipeline`
///   using policies = policy_list<...>           in place of all others: the policies of which
///                                               this policy consists
///   static constexpr int slices                 without an axis: see `reproducible`
///   static constexpr recompute_rule recomputes  without an axis: see `recompute`
///
/// A policy without an axis, such as `recompute`, does not add ranks to the mesh. `hybrid<...>`
/// combines policies of plait and policies that a program defines. docs/policies.md shows a policy
/// that a user wrote, and `plait::testing::check_policy` checks such a policy.
///
/// Errors: compile-time messages, see policy/checks.hpp.
template <class P>
concept policy = std::same_as<typename P::concept_tag, policy_tag>;

/// The policies that a policy consists of. The axis of the first policy changes slowest with the
/// rank number.
template <class... Policies>
struct policy_list {};

}  // namespace plait::ext

namespace plait {

/// Runs everything on one rank.
///
/// Example (tests/reference/names_in_use_test.cpp serial):
///     struct alone : plait::parallel<objective, plait::serial> {};  // one rank, nothing is sent
struct serial {
  using concept_tag = ext::policy_tag;
};

/// A number of ranks that is not known at compile time: the program sets it when the job is
/// launched. The value is not 0, so that a number of ranks that was wrongly computed as 0 is still
/// an error.
inline constexpr int at_launch = -1;

}  // namespace plait

namespace plait::ext {

/// A recompute rule defines which values each unit (a layer or a residual, see cut_at) recomputes
/// before its backward; see `recompute`.
struct recompute_rule {
  /// `what`: the values that are recomputed in a unit for which `has` returns true. `others`: the
  /// values that are recomputed in all other units.
  granularity what{}, others{};
  int greatest_stage = 0;  ///< the greatest stage number that the rule names
  /// Returns true if the unit recomputes `what`; `unit` is the number of the unit within its stage.
  bool (*has)(int stage, int unit) = [](int, int) { return false; };

  [[nodiscard]] constexpr granularity of(int stage, int unit) const {
    return has(stage, unit) ? what : others;
  }
  [[nodiscard]] constexpr bool any() const {
    return what != granularity::nothing || others != granularity::nothing;
  }
};

/// A function that moves parameters within the buckets of a layout, so that no block of a bucket
/// cuts a matrix; see planning::deal_parameters.
using parameter_dealer = void (*)(planning::parameter_layout& layout,
                                  planning::parameters_to_deal const& all);

/// A parameter rule defines three placements of parameters on one axis. All communication of
/// parameters and their gradients follows from the three by the transition table: the gradients of
/// a step change from `summed` to `owned`, and the updated parameters change from `owned` to `kept`
/// before the next passes. For example, {kept invariant, summed partial, owned invariant} is the
/// all_reduce of DDP. With owned shard<dim::elements> (ZeRO-1) it is a reduce_scatter and an
/// all_gather.
///
/// `owned` may be `shard<dim::elements>`: each rank updates one block of each bucket of the arena.
/// `summed` may be `shard<dim::elements>` as well: the gradients of each microbatch are then
/// reduced. `kept` may be `shard<dim::elements>` as well: parameters are then gathered before
/// layers use them.
///
/// If all three are `varying`, the ranks along the axis are replicas with parameters of their own,
/// see `local_steps`.
struct parameter_rule {
  placement kept = invariant;    ///< placement of the parameters between steps
  placement summed = invariant;  ///< placement of a step's sum of gradients before the reduction
  placement owned = invariant;   ///< placement of the parameters and states of an optimizer
  /// The form in which ranks send gradients that are summed over the axis.
  wire_format sent = wire_format::unrounded;
  /// True if `deal` moves parameters, so that blocks contain whole parameters.
  bool deals_parameters = false;
  parameter_dealer deal = nullptr;
  friend constexpr bool operator==(parameter_rule const&, parameter_rule const&) = default;
};

/// The dimensions of activations that the forms of layers may cut on an axis. Cutting a vocabulary
/// or heads counts as cutting features.
struct form_cuts {
  bool features = true;
  bool sequence = false;  ///< positions of a sequence
  friend constexpr bool operator==(form_cuts const&, form_cuts const&) = default;
};

/// The parameter rules of a job for all axes. On model and stage axes all three placements are
/// `invariant`, because forms and stages determine there where the parameters are.
struct parameter_rules {
  placements kept{}, summed{}, owned{};
  axis model_axis = axis::tensor;  ///< the axis on which the forms of layers choose placements
  axis_set rounded_axes{};         ///< the axes along which ranks send gradients rounded
  /// The form in which ranks send gradients along these axes.
  wire_format sent = wire_format::unrounded;
  bool has_two_formats = false;  ///< true if two policies name different forms
  axis_set local_axes{};         ///< the axes along which each rank is a replica, see local_steps
  bool deals_parameters = false;
  parameter_dealer deal = nullptr;

  constexpr void set(axis which, parameter_rule const& rule) {
    if (model_axes.contains(which)) model_axis = which;
    kept = kept.with(which, rule.kept);
    summed = summed.with(which, rule.summed);
    owned = owned.with(which, rule.owned);
    if (rule.sent != wire_format::unrounded) {
      has_two_formats = has_two_formats || (!rounded_axes.empty() && sent != rule.sent);
      rounded_axes = rounded_axes | which;
      sent = rule.sent;
    }
    if (rule.kept == varying) local_axes = local_axes | which;
    if (rule.deals_parameters) deals_parameters = true, deal = rule.deal;
  }
  /// The axes along which each rank's optimizer owns a block of the parameters.
  [[nodiscard]] constexpr axis_set cut_axes() const {
    return owned.axes_with(shard<dim::elements>);
  }
  /// True if ranks round the gradients that they send.
  [[nodiscard]] constexpr bool rounds() const { return sent != wire_format::unrounded; }
  /// Returns the placements of gradients of which each rank has its own summand: rounded on the
  /// axes along which ranks send rounded gradients, and otherwise partial.
  [[nodiscard]] constexpr placements summands(placements const& of) const {
    if (rounded_axes.empty()) return of;
    placements out = of;
    for (axis const which : all_axes)
      if (rounded_axes.contains(which) && of.at(which) == partial) out = out.with(which, rounded);
    return out;
  }
  /// True if ranks hold blocks of parameters, which are gathered before layers use them.
  [[nodiscard]] constexpr bool keeps_blocks() const {
    return !kept.axes_with(shard<dim::elements>).empty();
  }
  /// True if ranks hold blocks of gradients, into which the gradients of each microbatch are
  /// reduced.
  [[nodiscard]] constexpr bool sums_blocks() const {
    return !summed.axes_with(shard<dim::elements>).empty();
  }
};

}  // namespace plait::ext
