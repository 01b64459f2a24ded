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

/// Which of a unit's parameters are meant.
enum class units_use : int {
  all,     ///< that a forward reads
  passed,  ///< that a backward reads: of layers that give a gradient to their input
  summed   ///< that a backward makes a gradient of
};

[[nodiscard]] constexpr bool is_among(lean_vector<int> const& all, int number) {
  for (int const one : all)
    if (one == number) return true;
  return false;
}

/// Finds the buckets whose parameters units use, or whose gradients they make.
class bucket_uses {
 public:
  /// `passes`: for each entry, whether its layer gives a gradient to its input.
  [[gnu::cold]] constexpr bucket_uses(parameter_layout const& layout, static_view<item> items,
                                      static_view<parameter_entry> entries,
                                      lean_vector<int> passes = {})
      : layout_(layout), items_(items), entries_(entries), passes_(std::move(passes)) {}

  /// The numbers of the buckets of a region that a unit uses, those of owners of tied uses last.
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
  /// The same of several units, in their order.
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

/// The elements of the room that a region's buckets need, for two at a time: the largest sum of two
/// that the units of a chunk use one after the other.
///
/// Errors: error if a unit uses more than two.
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
                     " buckets, and there is room for two at a time; tie it to one other layer"});
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

/// Into how many blocks an arena has cut what a policy says, and whether it says that anything is.
struct arena_cut {
  bool is_cut = false;
  std::size_t blocks = 1;
};

/// Says where arenas have the buckets of a layout.
[[gnu::cold]] constexpr void store_buckets(parameter_layout& layout, static_view<item> items,
                                           static_view<parameter_entry> entries,
                                           static_view<unit_range> chunks,
                                           arena_cut const& parameters,
                                           arena_cut const& gradients) {
  auto const add = [](stored_buckets& to, lean_vector<bucket> const& all, std::size_t blocks) {
    for (auto const& one : all) {
      to.base.push_back(to.count);
      to.blocks.push_back(one.region == parameter_layout::over_tensor ? 1 : blocks);  // it is whole
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
  kept.behind = kept.count;
  if (!parameters.is_cut) kept.count += layout.frozen_count;
  else
    for (int const region : {parameter_layout::over_batch, parameter_layout::frozen})
      (region == parameter_layout::over_batch ? kept.room : kept.frozen_room) =
          add_room(kept, room_for_two(layout, uses, chunks, region, units_use::all));
  auto& summed = layout.gradients_at;
  add(summed, layout.buckets, gradients.blocks);
  summed.behind = summed.count;
  summed.count += layout.tied_count;
  if (gradients.is_cut)
    summed.room = add_room(summed, room_for_two(layout, uses, chunks, 0, units_use::summed));
}

/// Rules of a plan for the layout of a stage's parameters.
struct layout_rules {
  placements samples{};
  parameter_rules parameters{};
  bool has_slices = false;
  std::size_t least_bucket = 0;  ///< elements; 0 makes one bucket of over_batch
};

/// Lays out the parameters of a stage and their buckets. `chunks`: of the stage; `complete`: the
/// mesh with all its sizes.
[[gnu::cold]] constexpr parameter_layout lay_out_stage(static_view<item> items,
                                                       static_view<parameter_entry> entries,
                                                       static_view<unit_range> chunks,
                                                       mesh const& complete,
                                                       layout_rules const& how) {
  auto const& rules = how.parameters;
  auto layout = lay_out_parameters(
      items, entries, chunks, block_of(how.samples, complete, {}).blocks,
      how.has_slices ? square_piece : parameter_alignment, how.least_bucket, rules.keeps_blocks());
  auto const cut_as = [&](bool is_cut, placements const& at) {
    return arena_cut{is_cut, std::size_t(complete.size(at.axes_with(shard<dim::elements>)))};
  };
  store_buckets(layout, items, entries, chunks, cut_as(rules.keeps_blocks(), rules.kept),
                cut_as(rules.sums_blocks(), rules.summed));
  return layout;
}
/// Does the same outside constant expressions; its code is in the runtime.
[[gnu::cold]] parameter_layout lay_out_stage_at_run_time(static_view<item> items,
                                                         static_view<parameter_entry> entries,
                                                         static_view<unit_range> chunks,
                                                         mesh const& complete,
                                                         layout_rules const& how);

/// The buckets of one region that an operation uses, two at most; -1: none.
struct few_buckets {
  int first = -1, second = -1;
};

/// A place in a room for two: its begin or its end.
struct staging_place {
  bool at_end = false;
  bool takes_all = false;  ///< what lies at the other end is overwritten, too
};

/// What lies in a room for two while operations are listed in their order.
class bucket_staging {
 public:
  [[gnu::cold]] constexpr bucket_staging(parameter_layout const& layout, element_range const& room)
      : layout_(layout), room_(room) {}

  [[nodiscard]] constexpr bool has(int number) const {
    return inside_[0] == number || inside_[1] == number;
  }
  [[nodiscard]] constexpr bool is_at_end(int number) const { return inside_[1] == number; }
  /// Puts a bucket where it fits beside those in `kept` and `another`, which stay; whether it does.
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

/// The ranges into which units are split, so that those of a range use the same buckets of a
/// region, or of the two regions of what is gathered; a unit that uses none goes with those before
/// it.
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

/// A bucket of parameters that ranks bring together before an operation of the passes.
struct planned_gather {
  int before = 0;  ///< the number of the operation among those of the passes
  int bucket = 0;
  staging_place at{};
};

/// What is brought together for passes, and where each of their operations finds what it uses.
struct gather_plan {
  lean_vector<planned_gather>
      gathers{};            ///< of what is trained in their order, then of what is not
  std::size_t trained = 0;  ///< how many are of what is trained
  /// Of each operation, as bits: begin and end of the room for parameters, and of that for frozen
  /// ones.
  lean_vector<int> ends{};
  lean_vector<int> releases{};  ///< the same, of what no operation behind it uses there
};

/// Adds the buckets of a region that each operation of the passes uses, unless they lie there
/// still, and where there is room those of the next operation before it. `uses`: first and second
/// of each piece; `order`: which piece each operation is.
[[gnu::cold]] constexpr void add_gathers(gather_plan& out, parameter_layout const& layout,
                                         element_range const& room, lean_vector<int> const& uses,
                                         lean_vector<int> const& order, int first_bit) {
  bucket_staging inside(layout, room);
  std::array<int, 2> last_use{-1, -1};  // of what lies at each end
  auto const let_go = [&](std::size_t end) {
    int const operation = std::exchange(last_use[end], -1);
    if (operation >= 0) out.releases[std::size_t(operation)] |= (end == 1 ? 2 : 1) << first_bit;
  };
  auto const uses_of = [&](std::size_t operation) {
    auto const at = 2 * std::size_t(order[operation]);
    return few_buckets{uses[at], uses[at + 1]};
  };
  for (std::size_t i = 0; i < order.size(); ++i) {
    auto const here = uses_of(i);
    int ahead = -1;  // of the next operation, what has been brought
    auto const bring = [&](int number) {
      staging_place at;
      if (number < 0 || inside.has(number) || !inside.put(number, here, ahead, at)) return;
      out.gathers.push_back({static_cast<int>(i), number, at});
      for (std::size_t const end : {std::size_t{0}, std::size_t{1}})
        if (at.takes_all || at.at_end == (end == 1)) let_go(end);
    };
    auto const use = [&](int number) {
      if (number < 0) return;
      std::size_t const end = inside.is_at_end(number) ? 1 : 0;
      out.ends[i] |= (end == 1 ? 2 : 1) << first_bit;
      last_use[end] = static_cast<int>(i);
    };
    bring(here.first), bring(here.second);
    use(here.first), use(here.second);
    if (i + 1 == order.size()) break;
    auto const next = uses_of(i + 1);
    bring(next.first);
    ahead = next.first;
    bring(next.second);
  }
  let_go(0), let_go(1);
}

/// The ranges of units, in their order, that one pass through a chunk runs as operations of their
/// own. `ends_buckets`: whether it makes gradients that go on as soon as a bucket has all of its.
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

/// All that passes gather, each region in a room of its own: the gathers of what is trained, behind
/// them those of what is frozen. `passes`: of the stage, whose chunks are `chunks`.
[[nodiscard]] [[gnu::cold]] constexpr gather_plan gathers_of_passes(
    parameter_layout const& layout, bucket_uses const& uses, static_view<unit_range> chunks,
    std::vector<scheduled_work> const& passes, bool scatters) {
  // The pieces of all passes through a chunk are the same: forward, and in two ways backward.
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
