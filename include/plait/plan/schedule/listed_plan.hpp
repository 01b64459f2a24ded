// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>

#include "plait/core/lean_vector.hpp"
#include "plait/core/static_vector.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/mesh/placements.hpp"
#include "plait/plan/memory/recompute.hpp"
#include "plait/plan/memory/working_record.hpp"
#include "plait/plan/model/program.hpp"
#include "plait/plan/model/stage_split.hpp"
#include "plait/plan/schedule/exchange.hpp"
#include "plait/plan/sharding/arena_layout.hpp"
#include "plait/plan/sharding/bucket_rooms.hpp"
#include "plait/plan/sharding/parameter_plan.hpp"
#include "plait/policy/policy.hpp"
#include "plait/schedule/lowering.hpp"

namespace plait::planning {

/// What the list is made of, as numbers: the same type for all plans.
struct listed_plan {
  static_view<step> steps;
  static_view<value> values;
  static_view<item> items;
  static_view<form_info const*> forms;
  static_view<bool> needs_gradient;
  static_view<parameter_entry> entries;
  static_view<unit_range> chunk_units;  ///< of all chunks, those of a stage one behind the other
  int chunks = 1;                       ///< of each stage
  chunk_placement placement = chunk_placement::line;
  mesh grid{};  ///< with all its sizes
  placements samples{};
  parameter_rules rules{};
  bool has_copies = false;       ///< layers see the parameters in another type than optimizers
  bool splits_backward = false;  ///< see plan::splits_backward
  std::size_t element_bytes = 0;
  int tensor_ranks = 1;
  int norm_partials = 0;  ///< sums of squares of which the norm of the gradients is made
  int loss_terms = 1;
  int slices = 0;            ///< see plan::slices
  bool is_elastic = false;   ///< see plan::is_elastic
  bool has_buckets = false;  ///< gradients are reduced while the backward goes on
  recompute_table recomputes{};

  [[nodiscard]] constexpr pipeline_shape shape() const {
    return {chunks, placement, splits_backward};
  }
  [[nodiscard]] constexpr int stages() const { return chunk_units.size() / chunks; }
  [[nodiscard]] constexpr static_view<unit_range> chunks_of(int stage) const {
    return {chunk_units.begin() + stage * chunks, chunks};
  }
  [[nodiscard]] constexpr int unit_count() const { return count_units(items); }
  /// Whether ranks have blocks of what is exported of a region.
  [[nodiscard]] constexpr bool exports_blocks(int region, bool gradients) const {
    bool const is_frozen = region == parameter_layout::frozen;
    if (!is_frozen && (gradients || has_copies)) return !rules.cut_axes().empty();
    return region != parameter_layout::over_tensor && rules.keeps_blocks();
  }
  /// Which buckets of a layout units use.
  [[nodiscard]] [[gnu::cold]] constexpr bucket_uses bucket_uses_of(
      parameter_layout const& layout) const {
    lean_vector<int> passes(std::size_t(entries.size()), 0);
    for (auto const& now : steps)
      for (int e = 0; now.kind == step_kind::leaf && e < entries.size(); ++e)
        if (entries[e].leaf == now.leaf)
          passes[std::size_t(e)] = needs_gradient[now.in] || runs_again(now) ? 1 : 0;
    return {layout, items, entries, std::move(passes)};
  }
  /// Whether a step runs again before the backward of some units.
  [[nodiscard]] constexpr bool runs_again(step const& now) const {
    return recomputes.any() && recomputes.steps[int(&now - steps.begin())] != 0;
  }
  /// Whether a step makes a sum over samples at a place of a training step; see batch_sum.
  [[nodiscard]] constexpr bool makes_sum(form_info::inner_move const& sum, step const& of,
                                         exchange_place place) const {
    if (sum.body == layer_body::forward) return place == exchange_place::forward;
    return place == exchange_place::backward && needs_gradient[of.in];
  }
  /// Returns true if a step makes a move of its form in a pass.
  [[nodiscard]] constexpr bool makes_move(form_info::inner_move const& move, step const& of,
                                          bool is_forward) const {
    if (move.body == layer_body::forward) return is_forward;
    return !is_forward && needs_gradient[of.in];
  }
  /// The stage that has a unit.
  [[nodiscard]] constexpr int stage_of(int unit) const {
    int chunk = 0;
    while (!chunk_units[chunk].contains(unit)) ++chunk;
    return chunk / chunks;
  }
  /// Whether the gradient of what enters a unit is computed, and goes to the unit before.
  [[nodiscard]] constexpr bool sends_gradient(int unit) const {
    return unit != 0 && unit != unit_count() && needs_gradient[value_before(items, unit)];
  }
};

}  // namespace plait::planning
