// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/core/static_vector.hpp"
#include "plait/plan/arena_layout.hpp"
#include "plait/plan/parameter_plan.hpp"
#include "plait/plan/program.hpp"
#include "plait/plan/program_operation.hpp"
#include "plait/schedule/operation.hpp"

namespace plait::planning {

/// Which of a unit's parameters are meant.
enum class units_use : int {
  all,     ///< that a forward reads
  passed,  ///< that a backward reads: of layers that give a gradient to their input
  summed   ///< that a backward makes a gradient of
};

/// Finds the buckets whose parameters units use, or whose gradients they make.
class bucket_uses {
 public:
  /// `passes`: for each entry, whether its layer gives a gradient to its input.
  [[gnu::cold]] constexpr bucket_uses(parameter_layout const& layout, static_view<item> items,
                                      static_view<parameter_entry> entries,
                                      std::vector<bool> passes = {})
      : layout_(layout), items_(items), entries_(entries), passes_(std::move(passes)) {}

  /// The numbers of the buckets of a region that a unit uses, those of owners of tied uses last.
  [[nodiscard]] [[gnu::cold]] constexpr std::vector<int> of(int unit, int region,
                                                            units_use which) const {
    std::vector<int> out;
    for (bool const of_owners : {false, true})
      for (int e = 0; e < entries_.size(); ++e) {
        auto const& entry = entries_[e];
        bool const is_tied = entry.owner >= 0;
        if (!items_[entry.item].units().contains(unit) || is_tied != of_owners) continue;
        if (which == units_use::summed && is_tied) continue;
        if (which == units_use::passed && !passes_[std::size_t(e)]) continue;
        auto const& place = layout_.entries[std::size_t(e)];
        if (place.region != region) continue;
        int const number = bucket_with(region, is_tied ? place.unit : unit);
        if (number >= 0 && std::ranges::find(out, number) == out.end()) out.push_back(number);
      }
    return out;
  }
  /// The same of several units, in their order.
  [[nodiscard]] [[gnu::cold]] constexpr std::vector<int> of(unit_range units, int region,
                                                            units_use which) const {
    std::vector<int> out;
    for (int unit = units.begin; unit < units.end; ++unit)
      for (int const number : of(unit, region, which))
        if (std::ranges::find(out, number) == out.end()) out.push_back(number);
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
  std::vector<bool> passes_;
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
        throw error("plan: unit " + std::to_string(unit) + " uses parameters of " +
                    std::to_string(used.size()) +
                    " buckets, and there is room for two at a time; tie it to one other layer");
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
  auto const add = [](stored_buckets& to, std::vector<bucket> const& all, std::size_t blocks) {
    for (auto const& one : all) {
      to.base.push_back(to.count);
      to.blocks.push_back(one.region == 1 ? 1 : blocks);  // the second region is whole
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
    for (int const region : {0, parameter_layout::frozen})
      (region == 0 ? kept.room : kept.frozen_room) =
          add_room(kept, room_for_two(layout, uses, chunks, region, units_use::all));
  auto& summed = layout.gradients_at;
  add(summed, layout.buckets, gradients.blocks);
  summed.behind = summed.count;
  summed.count += layout.tied_count;
  if (gradients.is_cut)
    summed.room = add_room(summed, room_for_two(layout, uses, chunks, 0, units_use::summed));
}

/// A place in a room for two: its begin or its end.
struct room_place {
  bool at_end = false;
  bool takes_all = false;  ///< what lies at the other end is overwritten, too
};

/// What lies in a room for two while operations are listed in their order.
class room_for_buckets {
 public:
  [[gnu::cold]] constexpr room_for_buckets(parameter_layout const& layout,
                                           element_range const& room)
      : layout_(layout), room_(room) {}

  [[nodiscard]] constexpr bool has(int number) const {
    return inside_[0] == number || inside_[1] == number;
  }
  [[nodiscard]] constexpr bool is_at_end(int number) const { return inside_[1] == number; }
  /// Puts a bucket where it fits beside those in `kept` and `another`, which stay; whether it does.
  [[gnu::cold]] constexpr bool put(int number, static_vector<int, 2> const& kept, int another,
                                   room_place& at) {
    auto const stays = [&](int other) {
      if (other < 0) return false;
      for (int const each : kept)
        if (each == other) return true;
      return other == another;
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

/// The ranges into which units are split, so that those of a range use the same buckets of each
/// region; a unit that uses none goes with those before it.
[[nodiscard]] [[gnu::cold]] constexpr std::vector<unit_range> split_by_buckets(
    bucket_uses const& uses, unit_range units, std::vector<int> const& regions, units_use which) {
  std::vector<unit_range> out;
  std::vector<std::vector<int>> last(regions.size());
  for (int unit = units.begin; unit < units.end; ++unit) {
    bool splits = out.empty();
    for (std::size_t r = 0; r < regions.size(); ++r) {
      auto const used = uses.of(unit, regions[r], which);
      auto const is_new = [&](int number) {
        return std::ranges::find(last[r], number) == last[r].end();
      };
      if (!std::ranges::any_of(used, is_new)) continue;
      splits = true;
      last[r] = used;
    }
    if (splits) out.push_back({unit, unit});
    out.back().end = unit + 1;
  }
  return out;
}

/// A bucket of parameters that ranks bring together before an operation of the passes.
struct planned_gather {
  int before = 0;  ///< the number of the operation among those of the passes
  int bucket = 0;
  room_place at{};
};

/// What is brought together for passes, and where each of their operations finds what it uses.
struct gather_plan {
  std::vector<planned_gather> gathers{};    ///< in their order
  std::vector<std::array<bool, 4>> ends{};  ///< of each operation: begin and end of the room for
                                            ///< parameters and of that for frozen ones
};

/// The buckets of one region that an operation uses: two at most.
using few_buckets = static_vector<int, 2>;

/// The buckets that each operation of the passes uses, unless they lie there still, and where there
/// is room those of the next operation before it. `uses`: buckets of one region; `order`: which of
/// them each operation uses.
[[nodiscard]] [[gnu::cold]] constexpr gather_plan plan_gathers(parameter_layout const& layout,
                                                               element_range const& room,
                                                               std::vector<few_buckets> const& uses,
                                                               std::vector<int> const& order) {
  gather_plan out;
  out.ends.resize(order.size());
  if (room.count == 0) return out;
  out.gathers.reserve(2 * order.size());
  room_for_buckets inside(layout, room);
  for (std::size_t i = 0; i < order.size(); ++i) {
    auto const& here = uses[std::size_t(order[i])];
    int ahead = -1;  // of the next operation, what has been brought
    auto const bring = [&](int number) {
      room_place at;
      if (inside.has(number) || !inside.put(number, here, ahead, at)) return;
      out.gathers.push_back({static_cast<int>(i), number, at});
    };
    for (int const number : here) bring(number);
    for (int const number : here) out.ends[i][inside.is_at_end(number) ? 1 : 0] = true;
    if (i + 1 == order.size()) break;
    for (int const number : uses[std::size_t(order[i + 1])]) bring(number), ahead = number;
  }
  return out;
}

/// The ranges of units, in their order, that one pass through a chunk runs as operations of their
/// own. `ends_buckets`: whether it makes gradients that go on as soon as a bucket has all of its.
[[nodiscard]] [[gnu::cold]] constexpr std::vector<unit_range> pieces_of_pass(
    bucket_uses const& uses, unit_range units, bool gathers, bool ends_buckets) {
  std::vector<unit_range> by_use{units};
  if (gathers)
    by_use = split_by_buckets(uses, units, {0, parameter_layout::frozen}, units_use::all);
  if (!ends_buckets) return by_use;
  std::vector<unit_range> out;
  for (auto const& piece : by_use)
    for (auto const& part : split_by_buckets(uses, piece, {0}, units_use::summed))
      out.push_back(part);
  return out;
}

/// All that passes gather, each region in a room of its own. `passes`: of the stage, whose chunks
/// are `chunks`.
[[nodiscard]] [[gnu::cold]] constexpr gather_plan gathers_of_passes(
    parameter_layout const& layout, bucket_uses const& uses, static_view<unit_range> chunks,
    std::vector<scheduled_work> const& passes, bool scatters) {
  // The pieces of all passes through a chunk are the same: forward, and in two ways backward.
  std::vector<few_buckets> used, used_frozen;
  std::vector<std::vector<int>> pieces(3 * std::size_t(chunks.size()));
  std::vector<int> order;
  for (auto const& now : passes) {
    if (!computes(now.kind)) continue;
    bool const forward = now.kind == work::forward, sums = sums_gradients(now.kind);
    auto& here = pieces[3 * std::size_t(now.chunk) + (forward ? 0 : sums ? 1 : 2)];
    if (here.empty()) {
      auto const which = forward ? units_use::all : units_use::passed;
      for (auto const& piece : pieces_of_pass(uses, chunks[now.chunk], true, scatters && sums)) {
        here.push_back(int(used.size()));
        auto const of_region = [&](int region) {
          few_buckets few;
          for (int const number : uses.of(piece, region, which)) few.push_back(number);
          return few;
        };
        used.push_back(of_region(0));
        used_frozen.push_back(of_region(parameter_layout::frozen));
      }
      if (!forward) std::ranges::reverse(here);
    }
    order.insert(order.end(), here.begin(), here.end());
  }
  auto const& at = layout.parameters_at;
  auto out = plan_gathers(layout, at.room, used, order);
  auto const trained = out.gathers;
  auto const frozen = plan_gathers(layout, at.frozen_room, used_frozen, order);
  out.gathers.resize(trained.size() + frozen.gathers.size());
  std::ranges::merge(trained, frozen.gathers, out.gathers.begin(), {}, &planned_gather::before,
                     &planned_gather::before);
  for (std::size_t i = 0; i < out.ends.size(); ++i)
    std::copy_n(frozen.ends[i].begin(), 2, out.ends[i].begin() + 2);
  return out;
}

}  // namespace plait::planning
