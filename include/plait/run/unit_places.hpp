// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/plan/memory/recompute.hpp"
#include "plait/plan/sharding/arena_layout.hpp"
#include "plait/run/pass_frame.hpp"

namespace plait::execution {

/// Fills in the names under which profilers and messages show the leaves' bodies, such as "mlp.c_fc
/// forward" and "mlp.c_fc backward". `names`: the result of `leaf_names`.
[[gnu::cold]] void name_bodies(std::vector<std::string> names, std::span<std::string> forward,
                               std::span<std::string> backward);

/// The offsets of a unit's activations and gradients in the stashes of its chunk, in bytes, and the
/// bytes `stash_end` that the unit keeps in its activation stash. Values at a greater offset of the
/// unit's layout are recomputed.
struct unit_place {
  std::size_t activations = 0, gradients = 0, stash_end = 0;
};

/// Returns the units that are in both ranges.
constexpr unit_range within(unit_range piece, unit_range units) {
  return {std::max(units.begin, piece.begin), std::min(units.end, piece.end)};
}

/// Returns the places of the units of a model. `activations`: for each item and each kind of
/// recomputation, the bytes that a unit keeps in its activation stash. `gradients`: for each item,
/// the bytes of a unit's gradient stash.
[[nodiscard]] [[gnu::cold]] lean_vector<unit_place> places_of_units(
    static_view<item> items, lean_vector<chunk_arena> const& chunks,
    recompute_table const& recomputes, std::array<std::size_t, granularities> const* activations,
    std::size_t const* gradients);

}  // namespace plait::execution

#if PLAIT_HEADER_ONLY
#include "plait/run/unit_places.ipp"
#endif
