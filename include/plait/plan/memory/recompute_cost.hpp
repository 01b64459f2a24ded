// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "plait/plan/memory/recompute.hpp"
#include "plait/plan/memory/working_record.hpp"
#include "plait/plan/model/stage_split.hpp"
#include "plait/plan/model/workload.hpp"
#include "plait/schedule/operation.hpp"

namespace plait::planning {

/// Returns the flops per row, on one rank of the tensor axis, that a unit of an item computes again
/// if its kind of recompute is `what`.
template <class Plan>
constexpr double recompute_flops_per_row(int item, granularity what) {
  double sum = 0;
  auto const& piece = Plan::code.items[item];
  for (int s = piece.first_node; s < piece.end_node; ++s) {
    int const leaf = Plan::code.nodes[s].leaf;
    if (leaf < 0 || !Plan::recomputes.any() || (Plan::recomputes.nodes[s] & bit_of(int(what))) == 0)
      continue;
    sum += Plan::code.form(leaf).flops_of_rank(Plan::tree.leaves[leaf].flops_per_row,
                                               Plan::tensor_ranks);
  }
  return sum;
}

/// Returns the share of a stage's forward work that a step recomputes, by flops: 0 to 1.
///
/// `passes`: the passes of the stage, in their order.
/// `recomputes`: the table of the plan, or a table with other kinds of recompute for the units.
template <class Plan>
constexpr double recompute_work(int stage, workload const& load,
                                std::vector<scheduled_work> const& passes,
                                recompute_table const& recomputes = Plan::recomputes) {
  auto const counts =
      count_recomputes(Plan::code.items.view(), recomputes, Plan::chunks_of(stage), passes);
  double once = 0, recomputed_flops = 0;
  for (int i = 0; i < Plan::code.items.size(); ++i) {
    auto const& piece = Plan::code.items[i];
    once += piece.flops_per_row * load.microbatches * count_copies(piece, Plan::chunks_of(stage));
    for (int what = 0; what < granularities; ++what)
      recomputed_flops += recompute_flops_per_row<Plan>(i, granularity(what)) *
                          double(counts[std::size_t(i * granularities + what)]);
  }
  return once == 0 ? 0 : recomputed_flops / once;
}

}  // namespace plait::planning
