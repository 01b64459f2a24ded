// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>

#include "plait/core/granularity.hpp"
#include "plait/policy/policy.hpp"

/// Types that choose units (layers or residuals, see cut_at) of a job for a policy.
namespace plait::units {

/// Chooses all units of all stages.
struct everywhere {
  static constexpr int greatest_stage = 0;
  static constexpr bool has(int, int) { return true; }
};

/// Chooses all units of some pipeline stages.
template <int... Stages>
struct on_stages {
  static_assert(sizeof...(Stages) > 0 && ((Stages >= 0) && ...),
                "units::on_stages<Stages...>: the list is empty or has a negative number; write "
                "the numbers of stages, of which the first is 0");
  static constexpr int greatest_stage = [] {
    int most = 0;
    ((most = Stages > most ? Stages : most), ...);
    return most;
  }();
  static constexpr bool has(int stage, int) { return ((stage == Stages) || ...); }
};

/// Chooses the first units of each pipeline stage, in the order of the layers.
template <int Count>
struct first {
  static_assert(Count >= 1,
                "units::first<Count>: Count is less than 1, so that nothing would be recomputed; "
                "write at least 1, or leave recompute out");
  static constexpr int greatest_stage = 0;
  static constexpr bool has(int, int unit) { return unit < Count; }
};

}  // namespace plait::units

namespace plait::ext {

/// A type that chooses units of a job. `has(stage, unit)` returns true for a chosen unit; `unit` is
/// the number of the unit within its stage. `greatest_stage` is the greatest stage number that the
/// type contains, so that it can be compared with the number of stages.
template <class Where>
concept names_units = requires {
  { Where::greatest_stage } -> std::convertible_to<int>;
  { Where::has(0, 0) } -> std::same_as<bool>;
};

}  // namespace plait::ext

namespace plait {

/// Trades work for memory, as activation checkpointing (torch.utils.checkpoint) does:
/// `hybrid<pipeline<2>, recompute<granularity::all>>`. Without recompute, the values that a unit's
/// forward computes are kept for the unit's backward, for each microbatch in flight. With
/// recompute, these values are recomputed before the backward, by the same kernels from the same
/// inputs, so that all results have the same bits.
///
/// `Where` is units::everywhere, units::on_stages<0, 1> or units::first<K>; `Others` applies to the
/// other units. Within a model, recomputed<What, L> and kept<L> take precedence over this policy
/// for L. Two kinds of values are never recomputed: values that a loss reads, and values that are
/// still in memory since the last forward.
///
/// Moves:  the communication of the recomputed part of the forward, once more.
/// Memory: for each unit and microbatch the kept values, and one buffer for all recomputed values,
///         which one unit uses at a time. `plan::memory` and `explain` give the bytes;
///         `plan::least_recompute` finds the least recomputation for a given amount of memory.
/// Cost:   `plan::recompute_work` returns the share of a forward that is computed again.
template <granularity What = granularity::cheap, class Where = units::everywhere,
          granularity Others = granularity::nothing>
struct recompute {
  using concept_tag = ext::policy_tag;
  static_assert(ext::names_units<Where>,
                "recompute<What, Where>: Where does not choose units; write "
                "plait::units::everywhere, plait::units::on_stages<...> or plait::units::first<K>");
  static_assert(What > Others,
                "recompute<What, Where, Others>: the units of Where recompute no more than the "
                "others; write What greater than Others (nothing < cheap < moves < all)");
  static constexpr ext::recompute_rule recomputes = [] {
    if constexpr (ext::names_units<Where>)
      return ext::recompute_rule{What, Others, Where::greatest_stage, &Where::has};
    else return ext::recompute_rule{};
  }();
};

}  // namespace plait
