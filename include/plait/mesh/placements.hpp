// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "plait/core/concat.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/mesh/axis.hpp"
#include "plait/placement/transition.hpp"

namespace plait::ext {

/// The placements of a value, one on each axis of the mesh; invariant unless set.
struct placements {
  // The elements are listed one by one: g++ 12 corrupts a constant array filled with one value when
  // a constant expression makes a modified copy of it.
  std::array<placement, axis_count> on{invariant, invariant, invariant,
                                       invariant, invariant, invariant};

  [[nodiscard]] constexpr placement at(axis which) const {
    return on[static_cast<std::size_t>(which)];
  }
  /// Returns a copy that is placed `there` on one axis.
  [[nodiscard]] constexpr placements with(axis which, placement there) const {
    placements out = *this;
    out.on[static_cast<std::size_t>(which)] = there;
    return out;
  }
  /// Returns a copy that is placed `there` on each of these axes.
  [[nodiscard]] constexpr placements with(axis_set which, placement there) const {
    placements out = *this;
    for (axis const each : all_axes)
      if (which.contains(each)) out = out.with(each, there);
    return out;
  }
  /// Returns a copy that is placed `to` on each axis on which it is placed `from`.
  [[nodiscard]] constexpr placements replaced(placement from, placement to) const {
    return with(axes_with(from), to);
  }

  /// Returns a copy that is on one stage of a pipeline.
  [[nodiscard]] constexpr placements on_stage(int stage) const {
    return with(axis::stage, {placement_kind::only, stage});
  }
  /// The stage that holds the value, if a single stage does.
  [[nodiscard]] constexpr int stage() const { return at(axis::stage).index; }

  /// The axes on which the value is placed `there`.
  [[nodiscard]] constexpr axis_set axes_with(placement there) const {
    axis_set out;
    for (axis const which : all_axes)
      if (at(which) == there) out = out | which;
    return out;
  }

  friend constexpr bool operator==(placements const&, placements const&) = default;
};

/// Returns text such as "{data: partial, tensor: partial}"; axes on which the value is invariant
/// are left out.
[[gnu::cold]] constexpr std::string to_string(placements const& where) {
  std::string text = "{";
  for (axis const which : all_axes) {
    if (where.at(which) == invariant) continue;
    if (text.size() > 1) text += ", ";
    text += concat({to_string(which), ": ", to_string(where.at(which))});
  }
  return text += "}";
}

/// The transition of a value on all axes together, as one communication.
struct placements_transition {
  row_operation moves = local_move::none;
  axis_set over{};
  /// True if each axis has an allowed transition, and all transitions that communicate are the same
  /// operation.
  bool allowed = true;

  friend constexpr bool operator==(placements_transition const&,
                                   placements_transition const&) = default;
};

/// Returns the communication that brings a value from one set of placements to another. On each
/// axis it makes the transition that the transition table lists. The transitions that communicate
/// must be the same operation; they become one collective over their axes.
///
/// Sums over several axes become one sum over the union of the groups: {data: partial, tensor:
/// partial} to {data: invariant, tensor: invariant} is one all_reduce over data x tensor. Any other
/// communication is possible on one axis only. If elements are cut along several axes, only the
/// last cut in scatter_order can be added or removed.
[[gnu::cold]] constexpr placements_transition transition_between(placements const& from,
                                                                 placements const& to) {
  auto const is_cut = [](placement at) { return at == shard<dim::elements>; };
  axis_set stays_cut;
  for (axis const which : all_axes)
    if (is_cut(from.at(which)) && is_cut(to.at(which))) stays_cut = stays_cut | which;
  placements_transition out;
  for (axis const which : all_axes) {
    auto const row = transition_between(from.at(which), to.at(which));
    out.allowed = out.allowed && row.is_made();
    if (!communicates(row.moves)) continue;
    if ((is_cut(row.from) || is_cut(row.to)) && scatter_order(stays_cut | which).back() != which)
      out.allowed = false;
    bool const sums = row.moves == collective::all_reduce || row.moves == all_reduce_max;
    if (out.moves != local_move::none && (out.moves != row.moves || !sums)) out.allowed = false;
    out.moves = row.moves;
    out.over = out.over | which;
  }
  return out;
}

}  // namespace plait::ext
