// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/namespaces.hpp"
#include "plait/policy/policy.hpp"

namespace plait {

/// Allows or forbids a tensor axis to cut the sequence, too, between the layers that it splits.
enum class sequence : bool { unsharded, sharded };

/// Splits layers over `Ranks` ranks, with the cheapest chain of forms (see form_planner.hpp), as
/// Megatron does.
///
/// Moves: for each pair of a column and a row layer, one all_reduce of the activations forward and
///        one backward; with `sequence::sharded` the same bytes as all_gather and reduce_scatter.
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

namespace plait::ext {

/// The axis whose ranks communicate within each layer, and which should therefore be on one host.
inline constexpr axis axis_within_layers = tensor_parallel<1>::along;

}  // namespace plait::ext
