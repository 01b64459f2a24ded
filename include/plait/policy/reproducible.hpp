// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/policy/policy.hpp"

namespace plait {

/// Makes losses, gradients, norms and weights the same bits for every number of data ranks, every
/// pipeline split and timetable and every backend of the host:
/// `hybrid<data_parallel<4>, reproducible<8>>`.
///
/// The global batch is `Slices` equal slices, and a slice is a microbatch. Of n data ranks, 1 <= n
/// <= Slices, rank r has the slices [Slices * r / n, Slices * (r + 1) / n). What slices give is
/// added up along a tree over their numbers (slice_tree), each use of a parameter for itself.
/// The same bits need the same tensor size, precision, mathematical library and processor, which
/// ranks compare; `explain` says them.
///
/// Moves:  the roots of a rank instead of one sum, at most twice an all_reduce: for 12 slices on 4
///         ranks 2.25 times the bytes of the parameters instead of 1.5. With `zero<1>` without the
///         last gathering.
/// Memory: up to 2 log2(Slices / n) + 2 accumulators for the gradients instead of one.
///
/// Example (tests/reference/names_in_use_test.cpp reproducible):
///     using same_bits =
///         plait::hybrid<plait::data_parallel<>, plait::reproducible<8>>;  // on 1, 2, 4 or 8
template <int Slices>
struct reproducible {
  static_assert(Slices >= 1,
                "reproducible<Slices>: Slices is less than 1; write how many microbatches a step "
                "has over all data ranks");
  using concept_tag = ext::policy_tag;
  static constexpr int slices = Slices;
};

}  // namespace plait
