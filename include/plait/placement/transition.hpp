// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plait/core/namespaces.hpp"
#include "plait/placement/collective.hpp"
#include "plait/placement/placement.hpp"

namespace plait::ext {

/// The ways in which code can obtain a transition.
enum class derivation : int {
  automatic,  ///< inserted automatically between a producer and a consumer
  by_name,    ///< only if a layer or policy asks for it by name
  refused,    ///< not defined, or almost surely a mistake: does not compile
};

/// An entry (row) of the transition table, which has one row for each pair of placements that a
/// value can have before and after a change of placement on one axis.
struct transition {
  placement from, to;
  row_operation moves = local_move::none;
  derivation status = derivation::refused;

  /// True if the transition may be applied.
  [[nodiscard]] constexpr bool allowed() const { return status != derivation::refused; }
  /// True if communicators implement the transition. No communicator moves a value to one rank, or
  /// from one rank, by a gather, scatter or reduce: these transitions are in the table because they
  /// are the adjoints of others.
  [[nodiscard]] constexpr bool is_made() const {
    return allowed() && moves != collective::reduce && moves != collective::scatter &&
           moves != collective::gather;
  }
};

/// Returns the row of the transition table for a value that is placed `from` and must be placed
/// `to`.
///
/// All collectives are chosen here: every communication of the library is a row of this table. For
/// example, partial to invariant is an all_reduce (gradients in data-parallel training), and shard
/// to replicate is an all_gather. No row multiplies by a factor.
/// Source: docs/design/placement.md has the proof that the backward of a row is `adjoint(row)`.
[[gnu::cold]] constexpr transition transition_between(placement from, placement to) {
  using enum placement_kind;
  auto row = [&](row_operation moves, derivation status = derivation::automatic) {
    return transition{from, to, moves, status};
  };
  if (from == to) return row(local_move::none);
  switch (from.kind) {
    case replicate:
      if (to.kind == shard) return row(local_move::slice);
      if (to.kind == only) return row(local_move::keep);
      if (to.kind == partial) return row(local_move::mask, derivation::by_name);
      if (to.kind == invariant) return row(local_move::none, derivation::by_name);
      break;
    case invariant:
      if (to.kind == replicate) return row(local_move::none);
      if (to.kind == shard) return row(local_move::slice);
      if (to.kind == only) return row(local_move::keep);
      if (to.kind == partial) return row(local_move::mask, derivation::by_name);
      break;
    case shard:
      if (to.kind == replicate || to.kind == invariant) return row(collective::all_gather);
      // Shards of one dimension with different `parts` are refused, because ranks would have to
      // permute their blocks.
      if (to.kind == shard && to.index != from.index) return row(collective::all_to_all);
      if (to.kind == only) return row(collective::gather);
      if (to.kind == partial) return row(local_move::zero_pad, derivation::by_name);
      break;
    case partial:
      if (to.kind == invariant || to.kind == replicate) return row(collective::all_reduce);
      if (to.kind == shard) return row(collective::reduce_scatter);
      if (to.kind == only) return row(collective::reduce);
      break;
    case sliced:
      // Each rank receives all ranks' roots for its block of elements, and sums them along the
      // tree.
      if (to.kind == shard && to.index == dim::elements)
        return row(collective::all_to_all, derivation::by_name);
      break;
    case rounded:
      // Each rank receives all ranks' rounded values for its block of elements, and sums them.
      if (to.kind == shard && to.index == dim::elements)
        return row(collective::all_to_all, derivation::by_name);
      break;
    case partial_max:
      if (to.kind == invariant || to.kind == replicate)
        return row(all_reduce_max, derivation::by_name);
      break;
    case varying:
      // Each rank computes a summand from its own value, such as its weighted difference from the
      // common parameters.
      if (to.kind == partial) return row(local_move::none, derivation::by_name);
      break;
    case only:
      if (to.kind == replicate || to.kind == invariant) return row(collective::broadcast);
      if (to.kind == shard) return row(collective::scatter);
      if (to.kind == only) return row(collective::send);
      if (to.kind == partial) return row(local_move::zero_elsewhere, derivation::by_name);
      break;
  }
  return row(local_move::none, derivation::refused);
}

/// Returns the backward of a transition: the transition from the dual of its target to the dual of
/// its source.
constexpr transition adjoint(transition row) {
  return transition_between(dual(row.to), dual(row.from));
}

/// Returns the number of bytes that the busiest rank sends, or receives if that is more.
///
/// Units: `value_bytes` is the size of the whole value within the group of this axis.
/// Cost:  assumes bandwidth-optimal ring or direct algorithms; rounded up to whole bytes.
constexpr std::int64_t bytes_sent(row_operation moves, std::int64_t value_bytes,
                                  std::int64_t ranks) {
  auto const share = [&](std::int64_t times, std::int64_t divisor) {
    return (times * value_bytes * (ranks - 1) + divisor - 1) / divisor;
  };
  if (ranks == 1) return 0;
  switch (moves.sent) {
    case collective::all_reduce: return share(2, ranks);
    case collective::all_gather:
    case collective::reduce_scatter:
    case collective::scatter:
    case collective::gather: return share(1, ranks);
    case collective::all_to_all: return share(1, ranks * ranks);
    case collective::broadcast:
    case collective::reduce:
    case collective::send: return value_bytes;
    case collective::none:
    case collective::receive:
    case collective::barrier: return 0;
  }
  return 0;
}

}  // namespace plait::ext
