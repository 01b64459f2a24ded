// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "plait/core/granularity.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/static_vector.hpp"
#include "plait/plan/memory/recompute.hpp"
#include "plait/plan/model/program.hpp"
#include "plait/plan/model/units.hpp"
#include "plait/schedule/operation.hpp"

namespace plait::planning {

/// The recompute decisions of a plan as numbers. This type is the same for all plans.
struct recompute_table {
  static_view<unsigned char> nodes{};  ///< for each node, the bits of recompute_plan::node

  /// For each item, the bits of the field of record_levels that has the same name as this member.
  static_view<unsigned char> works{}, runs{}, overwrites{};
  /// For each unit of the model, its kind of recompute; empty if nothing is recomputed.
  static_view<granularity> units{};

  [[nodiscard]] constexpr bool any() const { return nodes.size() > 0; }
  /// Returns the kind of recompute of a unit, as a number.
  [[nodiscard]] constexpr int of(int unit) const {
    return units.size() == 0 ? 0 : int(units[unit]);
  }
};

/// Returns the kind of recompute of each unit. For each unit, `of` is called with the number of the
/// stage and the number of the unit within this stage.
///
/// `chunk_units`: the units of each chunk, sorted by stage. `chunks`: the number of chunks on each
/// stage.
template <std::size_t Units>
constexpr std::array<granularity, Units> list_unit_recomputes(auto const& chunk_units, int chunks,
                                                              auto of) {
  std::array<granularity, Units> out{};
  if constexpr (Units > 0) {
    int number = 0;
    for (int chunk = 0; chunk < int(chunk_units.size()); ++chunk) {
      if (chunk % chunks == 0) number = 0;
      auto const& units = chunk_units[std::size_t(chunk)];
      for (int unit = units.begin; unit < units.end; ++unit)
        out[std::size_t(unit)] = of(chunk / chunks, number++);
    }
  }
  return out;
}
template <class Reruns, class Records, class Units>
constexpr recompute_table table_of_recomputes(auto const& code, Reruns const& recomputed,
                                              Records const& records, Units const& units) {
  if constexpr (std::is_same_v<Reruns, no_recompute>) return {};
  else
    return {{recomputed.node.data(), code.nodes.size()},
            {records.works.data(), code.items.size()},
            {records.runs.data(), code.items.size()},
            {records.overwrites.data(), code.items.size()},
            {units.data(), int(units.size())}};
}

/// Keeps track of the contents of a rank's working record while passes run in their order. All
/// units that recompute a part of their record share one working record. If the last forward wrote
/// a unit's part there and no other unit has used it since, the backward needs no second forward.
/// Example: on the last stage of one_forward_one_backward no other unit uses the record between the
/// forward and the backward of the last unit that recomputes, so this unit does not run again. The
/// list of transfers, the program and `explain` all use this class, so that they agree on which
/// units are recomputed.
class working_record {
 public:
  constexpr working_record(static_view<item> items, recompute_table const& table)
      : items_(items), table_(table) {}

  /// Notes that a forward has run these units.
  constexpr void pass_forward(unit_range units, int microbatch) {
    for (int unit = units.begin; unit < units.end; ++unit)
      if (has(table_.works, unit)) unit_ = unit, microbatch_ = microbatch;
  }
  /// Returns true if a unit must be recomputed before its backward, and notes that the record now
  /// contains this unit.
  constexpr bool is_recomputed(int unit, int microbatch) {
    if (!table_.any() || !has(table_.runs, unit)) return false;
    bool const is_there = unit_ == unit && microbatch_ == microbatch;
    unit_ = unit, microbatch_ = microbatch;
    return !is_there;
  }
  /// Returns true if a recompute of the unit writes the unit's output again.
  [[nodiscard]] constexpr bool overwrites_output(int unit) const {
    return has(table_.overwrites, unit);
  }
  /// Notes that the backward of a unit is done, so that the record no longer contains the unit.
  constexpr void end_backward(int unit) {
    if (unit_ == unit) unit_ = -1;
  }

 private:
  [[nodiscard]] constexpr bool has(static_view<unsigned char> bits, int unit) const {
    return table_.any() && (bits[item_of(items_, unit)] >> table_.of(unit) & 1) != 0;
  }

  static_view<item> items_;
  recompute_table const& table_;
  int unit_ = -1, microbatch_ = -1;
};

/// Returns how often the passes of a stage recompute the units of each item. The result has a
/// number for each kind of `granularity` of item 0, then of item 1, and so on.
///
/// `chunks`, `passes`: chunks and passes of the stage.
[[nodiscard]] [[gnu::cold]] constexpr lean_vector<std::int64_t> count_recomputes(
    static_view<item> items, recompute_table const& table, static_view<unit_range> chunks,
    std::vector<scheduled_work> const& passes) {
  lean_vector<std::int64_t> out(std::size_t(items.size() * granularities), 0);
  working_record record(items, table);
  for (auto const& now : passes) {
    if (!computes(now.kind)) continue;
    auto const& units = chunks[now.chunk];
    if (now.kind == work::forward) {
      record.pass_forward(units, now.microbatch);
      continue;
    }
    for (int i = items.size() - 1; i >= 0; --i) {
      auto const here = overlap(items[i].units(), units);
      for (int unit = here.end - 1; unit >= here.begin; --unit) {
        if (record.is_recomputed(unit, now.microbatch))
          ++out[std::size_t(i * granularities + table.of(unit))];
        if (now.kind != work::backward_input) record.end_backward(unit);
      }
    }
  }
  return out;
}

}  // namespace plait::planning
