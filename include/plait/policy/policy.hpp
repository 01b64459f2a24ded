// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>

#include "plait/core/again.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/mesh/axis.hpp"
#include "plait/mesh/placements.hpp"

namespace plait::ext {

/// A type says on purpose that it is a policy by `using concept_tag = plait::ext::policy_tag;`.
struct policy_tag {};

/// A policy describes what the ranks along one axis of a mesh share; it is an empty type that says
///
///   using concept_tag = plait::ext::policy_tag;
///   static constexpr axis along                 the role of its axis (optional: it has none)
///   static constexpr int ranks                  how many; at_launch on a data or replica axis
///   static constexpr placement samples          shard<dim::batch> on a data or replica axis
///   static constexpr parameter_rule parameters  how parameters stand on that axis
///   static constexpr std::size_t bucket_bytes   on a data axis (optional): as `buckets` has it
///   static constexpr form_cuts forms            on a tensor axis: what forms may cut
///   using schedule_type, cuts                   on a stage axis (optional: as `pipeline`)
///   using policies = policy_list<...>           instead of all that: it consists of others
///   static constexpr int slices                 without an axis: see `reproducible`
///   static constexpr recompute_rule recomputes  without an axis: see `recompute`
///
/// A policy without an axis changes no mesh; `hybrid<...>` composes policies of plait's and of
/// programs alike. docs/policies.md has a user's own policy on one page,
/// `plait::testing::check_policy` runs one.
///
/// Errors: texts of the compiler, see policy/checks.hpp.
template <class P>
concept policy = std::same_as<typename P::concept_tag, policy_tag>;

/// The policies that one consists of; the first varies slowest in the numbering of ranks.
template <class... Policies>
struct policy_list {};

}  // namespace plait::ext

namespace plait {

/// One rank does everything.
///
/// Example (tests/reference/names_in_use_test.cpp serial):
///     struct alone : plait::parallel<objective, plait::serial> {};  // one rank, nothing is sent
struct serial {
  using concept_tag = ext::policy_tag;
};

/// The number of ranks is given when the job is launched. (Not 0, so that a number that was worked
/// out wrong does not mean it.)
inline constexpr int at_launch = -1;

}  // namespace plait

namespace plait::ext {

/// A recompute rule says which units make what again before their backward; see `recompute`.
struct recompute_rule {
  again what{}, others{};  ///< of the units of which `has` is true, and of the others
  int greatest_stage = 0;  ///< that `has` names
  /// unit: by its number within the stage
  bool (*has)(int stage, int unit) = [](int, int) { return false; };

  [[nodiscard]] constexpr again of(int stage, int unit) const {
    return has(stage, unit) ? what : others;
  }
  [[nodiscard]] constexpr bool any() const {
    return what != again::nothing || others != again::nothing;
  }
};

/// A parameter rule gives the placements of parameters on one axis. All communication of parameters
/// and of their gradients follows from these three by the table of transitions: what a step does
/// with the gradients is the row summed -> owned, what it does before the next passes is the row
/// owned -> kept.
///
/// `owned` may be `shard<dim::elements>`: each rank updates one block of each bucket of the arena.
/// So may `summed`, where the gradients of each microbatch are reduced, and `kept`, where
/// parameters are gathered before layers use them.
struct parameter_rule {
  placement kept = invariant;    ///< between steps
  placement summed = invariant;  ///< the sum of a step's gradients before it is reduced
  placement owned = invariant;   ///< what the optimizer of a rank updates, and its state
  friend constexpr bool operator==(parameter_rule const&, parameter_rule const&) = default;
};

/// The dimensions of activations that the forms of layers may cut on an axis. (Forms that cut a
/// vocabulary or heads cut features.)
struct form_cuts {
  bool features = true;
  bool sequence = false;  ///< positions
  friend constexpr bool operator==(form_cuts const&, form_cuts const&) = default;
};

/// The same on all axes. Where forms or stages decide it says invariant.
struct parameter_rules {
  placements kept{}, summed{}, owned{};

  constexpr void set(axis which, parameter_rule const& rule) {
    kept = kept.with(which, rule.kept);
    summed = summed.with(which, rule.summed);
    owned = owned.with(which, rule.owned);
  }
  /// The axes along which an optimizer owns blocks.
  [[nodiscard]] constexpr axis_set cut_axes() const {
    return owned.axes_with(shard<dim::elements>);
  }
  /// Whether ranks hold blocks of parameters, which are gathered before layers use them.
  [[nodiscard]] constexpr bool keeps_blocks() const {
    return !kept.axes_with(shard<dim::elements>).empty();
  }
  /// Whether ranks hold blocks of gradients, to which those of each microbatch are reduced.
  [[nodiscard]] constexpr bool sums_blocks() const {
    return !summed.axes_with(shard<dim::elements>).empty();
  }
};

}  // namespace plait::ext
