// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "plait/core/granularity.hpp"
#include "plait/plan/memory.hpp"
#include "plait/plan/memory/recompute_cost.hpp"
#include "plait/plan/model/workload.hpp"
#include "plait/policy/hybrid.hpp"
#include "plait/policy/recompute.hpp"

namespace plait::planning {

template <class Model, class Policy, class Element>
struct plan;

/// The result of plan::least_recompute. One of three policies is chosen: recompute nothing;
/// recompute cheap values; or recompute all values in the first K units of each stage and cheap
/// values in the others, which is `recompute<granularity::all, units::first<K>,
/// granularity::cheap>`.
struct recompute_choice {
  /// False if all choices need too many bytes; the other members then describe the last choice.
  bool fits = false;
  granularity what = granularity::nothing;
  int all_of_first = 0;   ///< K, the number of units at the beginning of each stage that recompute
                          ///< all values
  std::size_t bytes = 0;  ///< bytes of the rank that needs the most
  double work = 0;        ///< the greatest plan::recompute_work of a stage
};

/// Does the work of plan::least_recompute. Only the bytes of activations depend on what is
/// recomputed, so the other bytes are computed once.
template <class Plan>
[[nodiscard]] constexpr recompute_choice find_least_recompute(workload const& load,
                                                              std::size_t bytes) {
  static_assert(!Plan::has_recompute,
                "plan::least_recompute: the plan itself has a recompute; call this function of the "
                "same job's plan without recompute");
  recompute_choice best{.bytes = Plan::bytes_per_rank(load)};
  best.fits = best.bytes <= bytes;
  if (best.fits) return best;
  using mixed = plan<typename Plan::model,
                     hybrid<typename Plan::policy_type,
                            recompute<granularity::all, units::first<1>, granularity::cheap>>,
                     typename Plan::element_type>;
  auto const full = mixed::of_greatest(load);
  auto const table =
      training_timetable<typename mixed::schedule_type, mixed::stages>(full.microbatches);
  auto const layout = mixed::activation_layout_for(load.rows);
  std::array<std::size_t, std::size_t(mixed::stages)> besides{};  // bytes other than activations
  int most_units = 0;
  for (int stage = 0; stage < mixed::stages; ++stage) {
    auto const need = mixed::memory(stage, full, table.stages[std::size_t(stage)]);
    besides[std::size_t(stage)] = need.total() - need.activations;
    int here = 0;
    for (auto const& chunk : mixed::chunks_of(stage)) here += chunk.count();
    most_units = std::max(most_units, here);
  }
  for (int first = 0; first <= most_units; ++first) {
    auto const choice = list_unit_recomputes<std::size_t(mixed::code.unit_count())>(
        mixed::chunk_units, mixed::chunks,
        [&](int, int unit) { return unit < first ? granularity::all : granularity::cheap; });
    auto numbers = ir_of<mixed>;
    numbers.recomputes.units = {choice.data(), int(choice.size())};
    best = {false, first == 0 ? granularity::cheap : granularity::all, first, 0, 0};
    for (int stage = 0; stage < mixed::stages; ++stage) {
      auto const& here = table.stages[std::size_t(stage)];
      best.bytes = std::max(best.bytes, besides[std::size_t(stage)] +
                                            lay_out_arena<(mixed::chunks > 1)>(
                                                numbers, stage, layout, here, full.microbatches)
                                                .total_bytes);
      best.work = std::max(best.work,
                           recompute_work<mixed>(stage, full, here.operations, numbers.recomputes));
    }
    best.fits = best.bytes <= bytes;
    if (best.fits) return best;
  }
  return best;
}

}  // namespace plait::planning
