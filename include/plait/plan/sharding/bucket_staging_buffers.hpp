// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/static_vector.hpp"
#include "plait/mesh/blocks.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/mesh/placements.hpp"
#include "plait/plan/model/program.hpp"
#include "plait/plan/model/units.hpp"
#include "plait/plan/sharding/arena_layout.hpp"
#include "plait/plan/sharding/parameter_plan.hpp"
#include "plait/policy/policy.hpp"
#include "plait/schedule/operation.hpp"

namespace plait::planning {

/// Selects the parameters of a unit that a pass uses.
enum class units_use : int {
  all,     ///< parameters that a forward reads
  passed,  ///< parameters that a backward reads: see bucket_uses
  summed   ///< parameters whose gradients a backward adds up
};

[[nodiscard]] constexpr bool is_among(lean_vector<int> const& all, int number) {
  for (int const one : all)
    if (one == number) return true;
  return false;
}

/// Finds the buckets with the parameters that units use or whose gradients they compute.
class bucket_uses {
 public:
  /// `passes`: for each entry, nonzero if a backward reads the entry's parameter. It does so if the
  /// layer computes the gradient with respect to its input or runs again.
  [[gnu::cold]] constexpr bucket_uses(parameter_layout const& layout, static_view<item> items,
                                      static_view<parameter_entry> entries,
                                      lean_vector<int> passes = {})
      : layout_(layout), items_(items), entries_(entries), passes_(std::move(passes)) {}

  /// Returns the numbers of the buckets of a region that a unit uses; buckets of the owners of tied
  /// uses come last.
  [[nodiscard]] [[gnu::cold]] constexpr lean_vector<int> of(int unit, int region,
                                                            units_use which) const {
    lean_vector<int> out;
    for (bool const of_owners : {false, true})
      for (int e = 0; e < entries_.size(); ++e) {
        auto const& entry = entries_[e];
        bool const is_tied = entry.owner >= 0;
        if (!items_[entry.item].units().contains(unit) || is_tied != of_owners) continue;
        if (which == units_use::summed && is_tied) continue;
        if (which == units_use::passed && passes_[std::size_t(e)] == 0) continue;
        auto const& place = layout_.entries[std::size_t(e)];
        if (place.region != region) continue;
        int const number = bucket_with(region, is_tied ? place.unit : unit);
        if (number >= 0 && !is_among(out, number)) out.push_back(number);
      }
    return out;
  }
  /// Returns the buckets that several units use, in the order of the units.
  [[nodiscard]] [[gnu::cold]] constexpr lean_vector<int> of(unit_range units, int region,
                                                            units_use which) const {
    lean_vector<int> out;
    for (int unit = units.begin; unit < units.end; ++unit)
      for (int const number : of(unit, region, which))
        if (!is_among(out, number)) out.push_back(number);
    return out;
  }

 private:
  [[nodiscard]] constexpr int bucket_with(int region, int unit) const {
    auto const count = layout_.buckets.size() + layout_.frozen_buckets.size();
    for (std::size_t b = 0; b < count; ++b) {
      auto const& one = layout_.bucket_at(b);
      if (one.region == region && one.units.contains(unit)) return static_cast<int>(b);
    }
    return -1;
  }

  parameter_layout const& layout_;
  static_view<item> items_;
  static_view<parameter_entry> entries_;
  lean_vector<int> passes_;
};

/// Returns the number of elements that a staging buffer for two buckets of a region needs: the
/// largest sum of two buckets that the units of a chunk use one after the other. Example: buckets
/// of 300, 500 and 200 elements need a buffer of 800.
///
/// Errors: error if a unit uses more than two buckets.
[[gnu::cold]] constexpr std::size_t room_for_two(parameter_layout const& layout,
                                                 bucket_uses const& uses,
                                                 static_view<unit_range> chunks, int region,
                                                 units_use which) {
  std::size_t most = 0;
  for (auto const& chunk : chunks) {
    std::size_t before = 0;
    int last = -1;
    for (int unit = chunk.begin; unit < chunk.end; ++unit) {
      auto const used = uses.of(unit, region, which);
      if (used.size() > 2)
        throw error({"plan: unit ", unit, " uses parameters of ", used.size(),
                     " buckets, but a staging buffer holds only two at a time; tie the unit to one "
                     "other layer at most"});
      for (int const number : used) {
        if (number == last) continue;
        std::size_t const count = layout.bucket_at(std::size_t(number)).elements.count;
        most = std::max(most, before + count);
        before = count;
        last = number;
      }
    }
  }
  return most;
}

/// The cut of an arena: `is_cut` is true if the policy cuts the arena, and `blocks` is the number
/// of blocks.
struct arena_cut {
  bool is_cut = false;
  std::size_t blocks = 1;
};

/// Determines the places of a layout's buckets in the arenas of parameters and of gradients, and
/// adds them to the layout.
[[gnu::cold]] constexpr void store_buckets(parameter_layout& layout, static_view<item> items,
                                           static_view<parameter_entry> entries,
                                           static_view<unit_range> chunks,
                                           arena_cut const& parameters,
                                           arena_cut const& gradients) {
  auto const add = [](stored_buckets& to, lean_vector<bucket> const& all, std::size_t blocks) {
    for (auto const& one : all) {
      to.base.push_back(to.count);
      // Region over_tensor is never cut.
      to.blocks.push_back(one.region == parameter_layout::over_tensor ? 1 : blocks);
      to.count += one.elements.count / to.blocks.back();
    }
  };
  auto const add_room = [](stored_buckets& to, std::size_t count) {
    return element_range{std::exchange(to.count, to.count + count), count};
  };
  bucket_uses const uses(layout, items, entries);
  auto& kept = layout.parameters_at;
  add(kept, layout.buckets, parameters.blocks);
  add(kept, layout.frozen_buckets, parameters.blocks);
  kept.after_buckets = kept.count;
  if (!parameters.is_cut) kept.count += layout.frozen_count;
  else
    for (int const region : {parameter_layout::over_batch, parameter_layout::frozen})
      (region == parameter_layout::over_batch ? kept.room : kept.frozen_room) =
          add_room(kept, room_for_two(layout, uses, chunks, region, units_use::all));
  auto& summed = layout.gradients_at;
  add(summed, layout.buckets, gradients.blocks);
  summed.after_buckets = summed.count;
  summed.count += layout.tied_count;
  if (gradients.is_cut)
    summed.room = add_room(summed, room_for_two(layout, uses, chunks, 0, units_use::summed));
}

/// The rules by which a plan lays out the parameters of a stage.
struct layout_rules {
  placements samples{};
  parameter_rules parameters{};
  bool has_slices = false;
  std::size_t least_bucket = 0;  ///< least elements of a bucket; 0: region over_batch is one bucket
};

/// Returns the layout of the parameters of a stage, with their buckets.
///
/// `chunks`: chunks of the stage.
/// `complete`: the mesh with all its sizes.
[[gnu::cold]] constexpr parameter_layout lay_out_stage(static_view<item> items,
                                                       static_view<parameter_entry> entries,
                                                       static_view<unit_range> chunks,
                                                       mesh const& complete,
                                                       layout_rules const& how) {
  auto const& rules = how.parameters;
  auto layout =
      lay_out_parameters(items, entries, chunks, block_of(how.samples, complete, {}).blocks,
                         how.has_slices ? square_piece : parameter_alignment, how.least_bucket,
                         rules.keeps_blocks(), rules, std::size_t(complete.size(rules.cut_axes())));
  auto const cut_as = [&](bool is_cut, placements const& at) {
    return arena_cut{is_cut, std::size_t(complete.size(at.axes_with(shard<dim::elements>)))};
  };
  store_buckets(layout, items, entries, chunks, cut_as(rules.keeps_blocks(), rules.kept),
                cut_as(rules.sums_blocks(), rules.summed));
  return layout;
}
/// Calls lay_out_stage at run time; the code of this function is in the runtime library.
[[gnu::cold]] parameter_layout lay_out_stage_at_run_time(static_view<item> items,
                                                         static_view<parameter_entry> entries,
                                                         static_view<unit_range> chunks,
                                                         mesh const& complete,
                                                         layout_rules const& how);

/// The numbers of the buckets of one region that an operation uses, two at most; -1: no bucket.
struct few_buckets {
  int first = -1, second = -1;
};

/// A place in a staging buffer for two buckets: its beginning or its end.
struct staging_place {
  bool at_end = false;
  bool takes_all = false;  ///< the bucket at the other end is overwritten as well
};

/// Follows the contents of a staging buffer for two buckets while operations are listed in their
/// order. The buffer is as long as the largest sum of two buckets in use. One bucket is placed at
/// its beginning and one at its end. Buckets take the ends in turn, so a gather into one end
/// overlaps with layers that use the other. A bucket that is too long to fit next to the other
/// overwrites it and takes both ends.
class bucket_staging {
 public:
  [[gnu::cold]] constexpr bucket_staging(parameter_layout const& layout, element_range const& room)
      : layout_(layout), room_(room) {}

  [[nodiscard]] constexpr bool has(int number) const {
    return inside_[0] == number || inside_[1] == number;
  }
  [[nodiscard]] constexpr bool is_at_end(int number) const { return inside_[1] == number; }
  /// Puts bucket `number` into the staging buffer and sets `at` to its place. The buckets in `kept`
  /// and the bucket `another` are not overwritten. Returns false if the bucket does not fit.
  [[gnu::cold]] constexpr bool put(int number, few_buckets const& kept, int another,
                                   staging_place& at) {
    auto const stays = [&](int other) {
      return other >= 0 && (other == kept.first || other == kept.second || other == another);
    };
    for (std::size_t const side : {1 - last_, last_}) {
      int const beside = inside_[1 - side];
      bool const overlaps = beside >= 0 && count_of(beside) + count_of(number) > room_.count;
      if (stays(inside_[side]) || (overlaps && stays(beside))) continue;
      if (overlaps) inside_[1 - side] = -1;
      inside_[side] = number;
      last_ = side;
      at = {side == 1, overlaps};
      return true;
    }
    return false;
  }

 private:
  [[nodiscard]] constexpr std::size_t count_of(int number) const {
    return layout_.bucket_at(std::size_t(number)).elements.count;
  }

  parameter_layout const& layout_;
  element_range room_;
  std::array<int, 2> inside_{-1, -1};
  std::size_t last_ = 1;
};

/// Splits units into ranges of units that use the same buckets: buckets of region over_batch and,
/// for gathers, of the frozen region. A unit that uses no bucket joins the range in front of it.
[[nodiscard]] [[gnu::cold]] constexpr lean_vector<unit_range> split_by_buckets(
    bucket_uses const& uses, unit_range units, units_use which) {
  lean_vector<unit_range> out;
  lean_vector<int> last, last_frozen;
  auto const differ = [&](lean_vector<int>& before, lean_vector<int> const& used) {
    bool is_new = false;
    for (int const number : used) is_new = is_new || !is_among(before, number);
    if (is_new) before = used;
    return is_new;
  };
  for (int unit = units.begin; unit < units.end; ++unit) {
    bool splits = differ(last, uses.of(unit, 0, which)) || out.empty();
    if (which == units_use::all)
      splits = differ(last_frozen, uses.of(unit, parameter_layout::frozen, which)) || splits;
    if (splits) out.push_back({unit, unit});
    out.back().end = unit + 1;
  }
  return out;
}

/// A gather of a bucket of parameters, and the operation of the passes before which it runs.
struct planned_gather {
  int before = 0;  ///< index of the operation of the passes that the gather precedes
  int bucket = 0;
  staging_place at{};
};

/// The gathers of a stage's passes. Under `zero<3>` a rank keeps a block of each bucket, so a
/// bucket is gathered into a staging buffer before an operation that uses it. If a bucket is still
/// in the buffer, it is not gathered again. A bucket is gathered one operation early, if there is
/// space. Example: three buckets and one microbatch need four gathers: buckets 0, 1 and 2 for the
/// forward, and bucket 0 for the backward, because 1 and 2 are still in the buffer.
struct gather_plan {
  /// The gathers of trained parameters in their order, then the gathers of frozen parameters.
  lean_vector<planned_gather> gathers{};
  std::size_t trained = 0;  ///< number of gathers of trained parameters
  /// For each operation, the ends of staging buffers that it reads, as bits: beginning and end of
  /// the buffer for trained parameters, then of the buffer for frozen parameters.
  lean_vector<int> ends{};
  lean_vector<int> releases{};  ///< bits of the ends that no later operation reads
};

/// Adds the gathers of a region's buckets to the plan. Before each operation the function gathers
/// the buckets that the operation uses, unless they are still in the staging buffer. Then it
/// gathers the buckets of the next operation, if there is space.
///
/// `uses`: two bucket numbers for each piece, -1 for none.
/// `order`: the piece of each operation.
/// `first_bit`: the bit for the beginning of this staging buffer.
[[gnu::cold]] constexpr void add_gathers(gather_plan& out, parameter_layout const& layout,
                                         element_range const& room, lean_vector<int> const& uses,
                                         lean_vector<int> const& order, int first_bit) {
  bucket_staging inside(layout, room);
  std::array<int, 2> last_use{-1, -1};  // last operation that used the bucket at each end
  auto const release = [&](std::size_t end) {
    int const operation = std::exchange(last_use[end], -1);
    if (operation >= 0) out.releases[std::size_t(operation)] |= (end == 1 ? 2 : 1) << first_bit;
  };
  auto const uses_of = [&](std::size_t operation) {
    auto const at = 2 * std::size_t(order[operation]);
    return few_buckets{uses[at], uses[at + 1]};
  };
  for (std::size_t i = 0; i < order.size(); ++i) {
    auto const here = uses_of(i);
    int ahead = -1;  // bucket that was gathered early, for the next operation; -1: none
    auto const copy_block = [&](int number) {
      staging_place at;
      if (number < 0 || inside.has(number) || !inside.put(number, here, ahead, at)) return;
      out.gathers.push_back({static_cast<int>(i), number, at});
      for (std::size_t const end : {std::size_t{0}, std::size_t{1}})
        if (at.takes_all || at.at_end == (end == 1)) release(end);
    };
    auto const use = [&](int number) {
      if (number < 0) return;
      std::size_t const end = inside.is_at_end(number) ? 1 : 0;
      out.ends[i] |= (end == 1 ? 2 : 1) << first_bit;
      last_use[end] = static_cast<int>(i);
    };
    copy_block(here.first), copy_block(here.second);
    use(here.first), use(here.second);
    if (i + 1 == order.size()) break;
    auto const next = uses_of(i + 1);
    copy_block(next.first);
    ahead = next.first;
    copy_block(next.second);
  }
  release(0), release(1);
}

/// Returns the ranges of units that one pass through a chunk runs as separate operations, in the
/// order of the units. `ends_buckets`: true if the pass computes gradients that are reduced as soon
/// as a bucket is complete.
[[nodiscard]] [[gnu::cold]] constexpr lean_vector<unit_range> pieces_of_pass(
    bucket_uses const& uses, unit_range units, bool gathers, bool ends_buckets) {
  lean_vector<unit_range> by_use{units};
  if (gathers) by_use = split_by_buckets(uses, units, units_use::all);
  if (!ends_buckets) return by_use;
  lean_vector<unit_range> out;
  for (auto const& piece : by_use)
    for (auto const& part : split_by_buckets(uses, piece, units_use::summed)) out.push_back(part);
  return out;
}

/// Returns all gathers of a stage's passes, each region in a staging buffer of its own: first the
/// gathers of trained parameters, then the gathers of frozen parameters.
///
/// `passes`: passes of the stage.
/// `chunks`: chunks of the stage.
[[nodiscard]] [[gnu::cold]] constexpr gather_plan gathers_of_passes(
    parameter_layout const& layout, bucket_uses const& uses, static_view<unit_range> chunks,
    std::vector<scheduled_work> const& passes, bool scatters) {
  // All passes of one kind through a chunk have equal pieces: a forward, and two kinds of backward.
  lean_vector<int> used, used_frozen, order;
  lean_vector<int> first_piece(3 * std::size_t(chunks.size()), -1), end_piece = first_piece;
  for (auto const& now : passes) {
    if (!computes(now.kind)) continue;
    bool const forward = now.kind == work::forward, sums = sums_gradients(now.kind);
    auto const way = 3 * std::size_t(now.chunk) + (forward ? 0 : sums ? 1 : 2);
    if (first_piece[way] < 0) {
      auto const which = forward ? units_use::all : units_use::passed;
      first_piece[way] = int(used.size() / 2);
      for (auto const& piece : pieces_of_pass(uses, chunks[now.chunk], true, scatters && sums))
        for (int const region : {parameter_layout::over_batch, parameter_layout::frozen}) {
          auto& to = region == parameter_layout::over_batch ? used : used_frozen;
          auto const few = uses.of(piece, region, which);
          for (std::size_t i = 0; i < 2; ++i) to.push_back(i < few.size() ? few[i] : -1);
        }
      end_piece[way] = int(used.size() / 2);
    }
    int const first = first_piece[way], end = end_piece[way];
    for (int i = 0; i < end - first; ++i) order.push_back(forward ? first + i : end - 1 - i);
  }
  gather_plan out;
  out.ends = out.releases = lean_vector(order.size(), 0);
  auto const& at = layout.parameters_at;
  add_gathers(out, layout, at.room, used, order, 0);
  out.trained = out.gathers.size();
  if (at.frozen_room.count > 0) add_gathers(out, layout, at.frozen_room, used_frozen, order, 2);
  return out;
}

}  // namespace plait::planning

#if PLAIT_HEADER_ONLY
#include "plait/plan/sharding/bucket_staging_buffers.ipp"
#endif
