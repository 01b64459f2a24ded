// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>

#include "plait/core/namespaces.hpp"
#include "plait/policy/policy.hpp"

namespace plait::ext {

/// A data sharding says of what data ranks hold a block instead of all: it is a type with
/// `parameters`, the rule for the data axis.
template <class S>
concept data_sharding = requires {
  { S::parameters } -> std::convertible_to<parameter_rule>;
};

}  // namespace plait::ext

namespace plait {

/// Every data rank holds and updates all parameters.
struct unsharded {
  static constexpr ext::parameter_rule parameters{.summed = partial};
};

/// Each data rank updates one block of the parameters and holds the optimizer's state of it alone:
/// the gradients of a step are reduce-scattered, and the updated parameters gathered.
///
/// Moves:  what one all_reduce of the gradients would; with `precision<bfloat16, float>` three
///         quarters of that, as the copies that layers see are gathered.
/// Source: Rajbhandari, Rasley, Ruwase, He, "ZeRO: memory optimizations toward training trillion
///         parameter models", SC 2020: P_os.
///
/// Example (tests/reference/names_in_use_test.cpp zero):
///     struct less_memory : plait::parallel<objective, plait::data_parallel<4, plait::zero<1>>> {
///     };
template <int Level>
struct zero {
  static_assert(Level == 1,
                "zero<Level>: only level 1, shards of the optimizer's state, is there; write "
                "zero<1>, or data_parallel<Ranks> for none");
  static constexpr ext::parameter_rule parameters{.summed = partial, .owned = shard<dim::elements>};
};

/// Gives each of `Ranks` ranks an equal slice of the batch and adds up their gradients.
///
/// Moves: one all_reduce of the gradients per step, 2N(p-1)/p bytes for N bytes of parameters;
///        with `zero<1>` as much, as a reduce_scatter and an all_gather.
///
/// Example (tests/reference/names_in_use_test.cpp data_parallel):
///     struct two_ranks : plait::parallel<objective, plait::data_parallel<2>> {};
///     struct any_number : plait::parallel<objective, plait::data_parallel<>> {
///     };  // said at launch
template <int Ranks = at_launch, class Sharding = unsharded>
struct data_parallel {
  static_assert(Ranks >= 1 || Ranks == at_launch,
                "data_parallel<Ranks>: Ranks is less than 1; write the number of ranks, or nothing "
                "to choose it at launch");
  static_assert(ext::data_sharding<Sharding>,
                "data_parallel<Ranks, Sharding>: Sharding does not say how parameters stand; write "
                "zero<1> or unsharded");
  using concept_tag = ext::policy_tag;
  static constexpr axis along = axis::data;
  static constexpr int ranks = Ranks;
  static constexpr placement samples = shard<dim::batch>;
  static constexpr ext::parameter_rule parameters = Sharding::parameters;
};

}  // namespace plait
