// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/policy/policy.hpp"

namespace plait {

/// Makes losses, gradients, norms and weights equal bit for bit for every number of data ranks,
/// every pipeline split and timetable and every host backend: `hybrid<data_parallel<4>,
/// reproducible<8>>`.
///
/// The global batch is cut into `Slices` equal slices, and each slice is a microbatch. Of n data
/// ranks, 1 <= n <= Slices, rank r has the slices [Slices * r / n, Slices * (r + 1) / n). The sums
/// of slices are added along a binary tree over slice numbers (slice_tree), which does not depend
/// on n; each use of a parameter has its own sum. Equal bits require equal tensor size, precision,
/// mathematical library and processor; ranks compare these properties, and `explain` prints them.
///
/// Moves: each rank sends the sums that it can complete alone (its roots in the tree) instead of
///        one sum: at most twice the bytes of an all_reduce. For 12 slices on 4 ranks these are
///        2.25 times the bytes of the parameters instead of 1.5. With `zero<1>` the final gather is
///        not needed.
/// Memory: up to 2 log2(Slices / n) + 2 accumulators for the gradients instead of one.
///
/// Example (tests/reference/names_in_use_test.cpp reproducible):
///     using same_bits =
///         plait::hybrid<plait::data_parallel<>, plait::reproducible<8>>;  // on 1, 2, 4 or 8
template <int Slices>
struct reproducible {
  static_assert(Slices >= 1,
                "reproducible<Slices>: Slices is less than 1; set it to the number of microbatches "
                "of a step, over all data ranks together");
  using concept_tag = ext::policy_tag;
  static constexpr int slices = Slices;
};

}  // namespace plait
