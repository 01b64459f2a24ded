// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/namespaces.hpp"
#include "plait/policy/policy.hpp"

namespace plait {

/// Determines if a tensor axis also cuts the sequence dimension of activations between the layers
/// that it splits, which is sequence parallelism.
enum class sequence : bool { unsharded, sharded };

/// Splits layers over `Ranks` ranks, as Megatron does. The planner chooses the cheapest sequence of
/// forms for the layers (see form_planner.hpp).
///
/// Moves: for each pair of a column layer and a row layer, one all_reduce of the activations in the
///        forward and one in the backward. With `sequence::sharded` an all_gather and a
///        reduce_scatter, which together send the same bytes, take the place of each all_reduce.
///
/// Example (tests/reference/names_in_use_test.cpp tensor_parallel):
///     struct halves : plait::parallel<objective, plait::tensor_parallel<2>> {
///     };  // each rank computes half of each layer
template <int Ranks, sequence Sequence = sequence::unsharded>
struct tensor_parallel {
  static_assert(Ranks >= 1, "tensor_parallel<Ranks>: Ranks must be at least 1");
  using concept_tag = ext::policy_tag;
  static constexpr axis along = axis::tensor;
  static constexpr int ranks = Ranks;
  static constexpr ext::form_cuts forms{.sequence = Sequence == sequence::sharded};
};

}  // namespace plait
