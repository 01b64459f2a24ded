// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>

#include "plait/mesh/axis.hpp"
#include "plait/mesh/layout.hpp"

namespace plait {

/// A type says on purpose that it is a policy by `using concept_tag = plait::policy_tag;`.
struct policy_tag {};

template <class P>
concept policy = std::same_as<typename P::concept_tag, policy_tag>;

/// One rank does everything.
struct serial {
  using concept_tag = policy_tag;
};

/// The number of ranks is given when the job is launched.
inline constexpr int at_launch = 0;

/// How parameters stand on one axis. All communication of parameters and of their gradients follows
/// from these three by the table of transitions: what a step does with the gradients is the row
/// summed -> owned, what it does behind the update is the row owned -> kept.
///
/// `owned` may be `shard<dim::elements>`: each rank updates one block of each region of the arena.
struct parameter_rule {
  placement kept = invariant;    ///< between steps, as layers see them
  placement summed = invariant;  ///< the sum of a step's gradients before it is settled
  placement owned = invariant;   ///< what the optimizer of a rank updates, and its state
  friend constexpr bool operator==(parameter_rule const&, parameter_rule const&) = default;
};

/// The same on all axes. Where forms or stages decide it says invariant.
struct parameter_rules {
  layout kept{}, summed{}, owned{};

  constexpr void set(axis which, parameter_rule const& rule) {
    kept = kept.with(which, rule.kept);
    summed = summed.with(which, rule.summed);
    owned = owned.with(which, rule.owned);
  }
  /// The axes along which an optimizer owns blocks.
  [[nodiscard]] constexpr axis_set cut_axes() const {
    return owned.axes_with(shard<dim::elements>);
  }
};

}  // namespace plait
