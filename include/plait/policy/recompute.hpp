// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>

#include "plait/core/again.hpp"
#include "plait/policy/policy.hpp"

/// Which units of a job a policy means.
namespace plait::units {

/// All units of all stages.
struct everywhere {
  static constexpr int greatest_stage = 0;
  static constexpr bool has(int, int) { return true; }
};

/// All units of some pipeline stages.
template <int... Stages>
struct on_stages {
  static_assert(sizeof...(Stages) > 0 && ((Stages >= 0) && ...),
                "units::on_stages<Stages...>: write the numbers of stages, from 0 on");
  static constexpr int greatest_stage = [] {
    int most = 0;
    ((most = Stages > most ? Stages : most), ...);
    return most;
  }();
  static constexpr bool has(int stage, int) { return ((stage == Stages) || ...); }
};

/// The first units of each pipeline stage, in the order of the layers.
template <int Count>
struct first {
  static_assert(Count >= 1,
                "units::first<Count>: Count is less than 1, so that nothing would be made again; "
                "write at least 1, or leave recompute out");
  static constexpr int greatest_stage = 0;
  static constexpr bool has(int, int unit) { return unit < Count; }
};

}  // namespace plait::units

namespace plait::ext {

/// A type that names units: `has(stage, unit)` says whether it means one, by its number within the
/// stage; `greatest_stage` is the greatest stage that it names.
template <class Where>
concept names_units = requires {
  { Where::greatest_stage } -> std::convertible_to<int>;
  { Where::has(0, 0) } -> std::same_as<bool>;
};

}  // namespace plait::ext

namespace plait {

/// Less memory for more work: `hybrid<pipeline<2>, recompute<again::all>>`. What a unit's forward
/// makes is kept for its backward, for each microbatch in flight; with this it is made again before
/// the backward, by the same kernels from the same numbers, so that all results have the same bits.
///
/// `Where`: units::everywhere, units::on_stages<0, 1> or units::first<K>; for the other units
/// `Others` holds. In a model, recomputed<What, L> and kept<L> decide for L. What a loss reads is
/// never made again, nor what the last forward has left there still.
///
/// Moves:  what the forward moves of what is made again, once more.
/// Memory: of each unit and microbatch what is kept, and one record of all that is made again, in
///         which one unit at a time works. `plan::memory` and `explain` say how much,
///         `plan::least_recompute` what is needed for a given room.
/// Cost:   `plan::recompute_work` says how much of a forward is done again.
template <again What = again::cheap, class Where = units::everywhere, again Others = again::nothing>
struct recompute {
  using concept_tag = ext::policy_tag;
  static_assert(ext::names_units<Where>,
                "recompute<What, Where>: Where does not say which units are meant; write "
                "plait::units::everywhere, plait::units::on_stages<...> or plait::units::first<K>");
  static_assert(What > Others,
                "recompute<What, Where, Others>: the units of Where make no more again than the "
                "others; write What greater than Others (nothing < cheap < moves < all)");
  static constexpr ext::recompute_rule recomputes = [] {
    if constexpr (ext::names_units<Where>)
      return ext::recompute_rule{What, Others, Where::greatest_stage, &Where::has};
    else return ext::recompute_rule{};
  }();
};

}  // namespace plait
