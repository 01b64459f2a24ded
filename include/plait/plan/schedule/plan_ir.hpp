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
#include "plait/plan/schedule/transfer.hpp"
#include "plait/plan/sharding/arena_layout.hpp"
#include "plait/plan/sharding/bucket_staging_buffers.hpp"
#include "plait/plan/sharding/parameter_plan.hpp"
#include "plait/policy/policy.hpp"
#include "plait/schedule/lowering.hpp"

namespace plait::planning {

/// A plan as a value, of a type that is the same for all plans. A plan is a type with constants, so
/// code that takes this type is compiled again for each plan. Everything after the plan takes this
/// intermediate representation instead and is compiled once: the list of transfers, the program of
/// a step, pictures, and the code that runs the stages of a rank. The views in it refer to
/// constants of the plan, so a copy is small.
///
/// Example: `ir_of<Plan>` is the value of a plan whose mesh may lack a size that is set at launch;
/// `ir_on<Plan>(grid)` has that size.
struct plan_ir {
  /// The places of values and of their gradients, indexed by the number of a value.
  struct places {
    static_view<residence> values, gradients;
  };

  static_view<program_node> nodes;
  static_view<value> values;
  static_view<item> items;
  static_view<form_info const*> forms;
  static_view<leaf_info> leaves;
  static_view<bool> needs_gradient;
  places storage;
  static_view<parameter_entry> entries;
  static_view<int> first_entry;  ///< for each leaf, the index of its first parameter in `entries`
  /// For each node, a bit for each kind of `granularity` under which it runs again; empty if no
  /// node runs again.
  static_view<unsigned char> recomputed;
  static_view<unit_range> chunk_units;  ///< units of each chunk, stage by stage
  int chunks = 1;                       ///< number of chunks of a stage
  chunk_placement placement = chunk_placement::line;
  mesh grid{};  ///< the mesh, with all its sizes
  placements samples{};
  parameter_rules rules{};
  bool has_copies = false;       ///< true if layers see parameters in another type than optimizers
  bool splits_backward = false;  ///< backward passes may be split in halves
  std::size_t element_bytes = 0, parameter_bytes = 0, gradient_bytes = 0;
  int tensor_ranks = 1;
  int norm_partials = 0;  ///< number of sums of squares for the norm of the gradients
  int loss_terms = 1;
  int slices = 0;            ///< slices of a global batch; 0: no slices
  bool is_elastic = false;   ///< ranks may join and leave while the job runs
  bool has_buckets = false;  ///< true if gradients are reduced while the backward is still running
  bool delays = false;       ///< a step applies the gradients of the step before
  recompute_table recomputes{};

  [[nodiscard]] constexpr form_info const& form(int leaf) const { return *forms[leaf]; }
  [[nodiscard]] constexpr pipeline_shape shape() const {
    return {chunks, placement, splits_backward};
  }
  [[nodiscard]] constexpr int stages() const { return chunk_units.size() / chunks; }
  [[nodiscard]] constexpr static_view<unit_range> chunks_of(int stage) const {
    return {chunk_units.begin() + stage * chunks, chunks};
  }
  [[nodiscard]] constexpr int unit_count() const { return count_units(items); }
  /// Returns true if each rank has only a block of a region's elements, so that an export gathers
  /// them.
  [[nodiscard]] constexpr bool exports_blocks(int region, bool gradients) const {
    bool const is_frozen = region == parameter_layout::frozen;
    if (!is_frozen && (gradients || has_copies)) return !rules.cut_axes().empty();
    return region != parameter_layout::over_tensor && rules.keeps_blocks();
  }
  /// Returns a bucket_uses, which finds the buckets whose parameters a unit uses.
  [[nodiscard]] [[gnu::cold]] constexpr bucket_uses bucket_uses_of(
      parameter_layout const& layout) const {
    lean_vector<int> passes(std::size_t(entries.size()), 0);
    for (auto const& now : nodes)
      for (int e = 0; now.kind == program_node_kind::leaf && e < entries.size(); ++e)
        if (entries[e].leaf == now.leaf)
          passes[std::size_t(e)] = needs_gradient[now.in] || is_recomputed(now) ? 1 : 0;
    return {layout, items, entries, std::move(passes)};
  }
  /// Returns true if a node runs again in front of the backward of some units.
  [[nodiscard]] constexpr bool is_recomputed(program_node const& now) const {
    return recomputes.any() && recomputes.nodes[int(&now - nodes.begin())] != 0;
  }
  /// Returns true if node `of` computes `sum`, a sum over samples (see batch_sum). `place`:
  /// transfer_place::forward for the forward of a training step, transfer_place::backward for its
  /// backward.
  [[nodiscard]] constexpr bool makes_sum(form_info::inner_move const& sum, program_node const& of,
                                         transfer_place place) const {
    if (sum.body == layer_body::forward) return place == transfer_place::forward;
    return place == transfer_place::backward && needs_gradient[of.in];
  }
  /// Returns true if node `of` carries out `move`, an ops.move inside its layer, in the forward or
  /// in the backward.
  [[nodiscard]] constexpr bool makes_move(form_info::inner_move const& move, program_node const& of,
                                          bool is_forward) const {
    if (move.body == layer_body::forward) return is_forward;
    return !is_forward && needs_gradient[of.in];
  }
  /// Returns the stage of a unit.
  [[nodiscard]] constexpr int stage_of(int unit) const {
    int chunk = 0;
    while (!chunk_units[chunk].contains(unit)) ++chunk;
    return chunk / chunks;
  }
  /// Returns true if the gradient with respect to a unit's input is computed and is sent to the
  /// unit before it.
  [[nodiscard]] constexpr bool sends_gradient(int unit) const {
    return unit != 0 && unit != unit_count() && needs_gradient[value_before(items, unit)];
  }
};

/// For each node, returns the bits of recompute_plan::node; empty if nothing is recomputed.
template <class Plan>
constexpr static_view<unsigned char> recomputed_nodes_of() {
  if constexpr (Plan::has_recompute) return {Plan::recomputed.node.data(), Plan::code.nodes.size()};
  else return {};
}

/// The plan as a value. If the size of one axis is set only at launch, the mesh of this value does
/// not contain that size.
template <class Plan>
inline constexpr plan_ir ir_of{
    .nodes = Plan::code.nodes.view(),
    .values = Plan::code.values.view(),
    .items = Plan::code.items.view(),
    .forms = Plan::code.forms.view(),
    .leaves = Plan::tree.leaves.view(),
    .needs_gradient = {Plan::needs_gradient.data(), Plan::code.values.size()},
    .storage = {{Plan::storage.values.data(), Plan::code.values.size()},
                {Plan::storage.gradients.data(), Plan::code.values.size()}},
    .entries = Plan::entries.view(),
    .first_entry = {Plan::listed.first_entry.data(), Plan::tree.leaves.size()},
    .recomputed = recomputed_nodes_of<Plan>(),
    .chunk_units = {Plan::chunk_units.data(), int(Plan::chunk_units.size())},
    .chunks = Plan::chunks,
    .placement = Plan::shape.placement,
    .grid = Plan::grid,
    .samples = Plan::samples,
    .rules = Plan::rules,
    .has_copies = Plan::has_copies,
    .splits_backward = Plan::splits_backward,
    .element_bytes = Plan::element_bytes,
    .parameter_bytes = Plan::parameter_bytes,
    .gradient_bytes = Plan::gradient_bytes,
    .tensor_ranks = Plan::tensor_ranks,
    .norm_partials = Plan::norm_partial_count(),
    .loss_terms = Plan::loss_terms(),
    .slices = Plan::slices,
    .is_elastic = Plan::is_elastic,
    .has_buckets = Plan::bucket_bytes > 0,
    .delays = Plan::delays,
    .recomputes = Plan::recomputes};
/// Returns a plan as a value, with all sizes of its mesh.
template <class Plan>
constexpr plan_ir ir_on(mesh const& grid) {
  plan_ir out = ir_of<Plan>;
  out.grid = grid;
  return out;
}

}  // namespace plait::planning
