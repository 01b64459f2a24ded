// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plait/placement/placement.hpp"

namespace plait {

/// A movement is what the ranks of one axis do to turn one placement into another.
enum class movement : int {
  none,            ///< the local values stay; only the type changes
  slice,           ///< each rank keeps its own block
  zero_pad,        ///< each rank puts its block into zeros of the whole extent
  mask,            ///< rank 0 keeps its value, the others hold zeros
  keep,            ///< rank k keeps its value, the others drop theirs
  zero_elsewhere,  ///< rank k keeps its value, the others hold zeros
  all_reduce,
  all_reduce_max,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast,
  reduce,
  scatter,
  gather,
  send,
};

/// The party that may ask for a transition.
enum class derivation : int {
  automatic,  ///< derived wherever a producer meets a consumer
  by_name,    ///< only where a layer or policy writes it
  refused,    ///< not defined, or almost surely a mistake: does not compile
};

/// One row of the table: the only map between two placements of the same value on one axis.
struct transition {
  placement from, to;
  movement moves = movement::none;
  derivation status = derivation::refused;

  /// True if the row may be applied at all.
  [[nodiscard]] constexpr bool allowed() const { return status != derivation::refused; }
  /// True if communicators can do it, too. Values are not brought to one rank, or from one, block
  /// by block or as a sum: these rows are in the table as the adjoints of others.
  [[nodiscard]] constexpr bool is_made() const {
    return allowed() && moves != movement::reduce && moves != movement::scatter &&
           moves != movement::gather;
  }
};

/// The row of the transition table for a value that is placed `from` and needed `to`.
///
/// This is the one place where a collective is chosen; everything that is sent anywhere is a row of
/// this table. No row multiplies by a factor.
/// Source: docs/design/placement.md has the proof that the backward of a row is `adjoint(row)`.
constexpr transition transition_between(placement from, placement to) {
  using enum placement_kind;
  auto row = [&](movement moves, derivation status = derivation::automatic) {
    return transition{from, to, moves, status};
  };
  if (from == to) return row(movement::none);
  switch (from.kind) {
    case replicate:
      if (to.kind == shard) return row(movement::slice);
      if (to.kind == only) return row(movement::keep);
      if (to.kind == partial) return row(movement::mask, derivation::by_name);
      if (to.kind == invariant) return row(movement::none, derivation::by_name);
      break;
    case invariant:
      if (to.kind == replicate) return row(movement::none);
      if (to.kind == shard) return row(movement::slice);
      if (to.kind == only) return row(movement::keep);
      if (to.kind == partial) return row(movement::mask, derivation::by_name);
      break;
    case shard:
      if (to.kind == replicate || to.kind == invariant) return row(movement::all_gather);
      // Two orders of the same dimension would need a permutation between ranks.
      if (to.kind == shard && to.index != from.index) return row(movement::all_to_all);
      if (to.kind == only) return row(movement::gather);
      if (to.kind == partial) return row(movement::zero_pad, derivation::by_name);
      break;
    case partial:
      if (to.kind == invariant || to.kind == replicate) return row(movement::all_reduce);
      if (to.kind == shard) return row(movement::reduce_scatter);
      if (to.kind == only) return row(movement::reduce);
      break;
    case sliced:
      // Each rank gets all roots of its block, and adds them up as the tree says.
      if (to.kind == shard && to.index == dim::elements)
        return row(movement::all_to_all, derivation::by_name);
      break;
    case partial_max:
      if (to.kind == invariant || to.kind == replicate)
        return row(movement::all_reduce_max, derivation::by_name);
      break;
    case only:
      if (to.kind == replicate || to.kind == invariant) return row(movement::broadcast);
      if (to.kind == shard) return row(movement::scatter);
      if (to.kind == only) return row(movement::send);
      if (to.kind == partial) return row(movement::zero_elsewhere, derivation::by_name);
      break;
  }
  return row(movement::none, derivation::refused);
}

/// The backward of a row: the row from the dual of its target to the dual of its source.
constexpr transition adjoint(transition row) {
  return transition_between(dual(row.to), dual(row.from));
}

/// Bytes that the busiest rank sends or receives, whichever is more.
///
/// Units: `value_bytes` is the size of the whole value within the group of this axis.
/// Cost:  of bandwidth-optimal ring or direct algorithms; rounded up to whole bytes.
constexpr std::int64_t wire_bytes(movement moves, std::int64_t value_bytes, std::int64_t ranks) {
  auto const share = [&](std::int64_t times, std::int64_t divisor) {
    return (times * value_bytes * (ranks - 1) + divisor - 1) / divisor;
  };
  if (ranks == 1) return 0;
  switch (moves) {
    case movement::none:
    case movement::slice:
    case movement::zero_pad:
    case movement::mask:
    case movement::keep:
    case movement::zero_elsewhere: return 0;
    case movement::all_reduce:
    case movement::all_reduce_max: return share(2, ranks);
    case movement::all_gather:
    case movement::reduce_scatter:
    case movement::scatter:
    case movement::gather: return share(1, ranks);
    case movement::all_to_all: return share(1, ranks * ranks);
    case movement::broadcast:
    case movement::reduce:
    case movement::send: return value_bytes;
  }
  return 0;
}

/// True if the movement needs other ranks.
constexpr bool communicates(movement moves) { return moves >= movement::all_reduce; }

/// True if the movement leaves a value where it lies, in which case a layer's body may ask for it.
constexpr bool reduces_in_place(movement moves) {
  return moves == movement::all_reduce || moves == movement::all_reduce_max;
}

/// The movement in words, for print-outs.
constexpr char const* to_string(movement moves) {
  switch (moves) {
    case movement::none: return "none";
    case movement::slice: return "slice";
    case movement::zero_pad: return "zero_pad";
    case movement::mask: return "mask";
    case movement::keep: return "keep";
    case movement::zero_elsewhere: return "zero_elsewhere";
    case movement::all_reduce: return "all_reduce";
    case movement::all_reduce_max: return "all_reduce(max)";
    case movement::all_gather: return "all_gather";
    case movement::reduce_scatter: return "reduce_scatter";
    case movement::all_to_all: return "all_to_all";
    case movement::broadcast: return "broadcast";
    case movement::reduce: return "reduce";
    case movement::scatter: return "scatter";
    case movement::gather: return "gather";
    case movement::send: return "send";
  }
  return "?";
}

}  // namespace plait
