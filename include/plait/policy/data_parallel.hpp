// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/policy/policy.hpp"

namespace plait {

/// Gives each of `Ranks` ranks an equal slice of the batch and adds up their gradients.
///
/// Moves: one all_reduce of the gradients per step, 2N(p-1)/p bytes for N bytes of parameters.
template <int Ranks = at_launch>
struct data_parallel {
  static_assert(Ranks >= 0,
                "data_parallel<Ranks>: Ranks is negative; write the number of ranks, or nothing to "
                "choose it at launch");
  using concept_tag = policy_tag;
  static constexpr axis along = axis::data;
  static constexpr int ranks = Ranks;
  static constexpr placement samples = shard<dim::batch>;
  static constexpr parameter_rule parameters{.summed = partial};
};

}  // namespace plait
