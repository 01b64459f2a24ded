// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// A communication in which the ranks of a group exchange data. Communicators implement all except
/// reduce, scatter and gather; the transition table contains these three because they are the
/// adjoints of other transitions.
enum class collective : int {
  none = -1,
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast,
  send,
  receive,
  barrier,
  reduce,
  scatter,
  gather
};

/// The number of collectives, without `none`.
inline constexpr int collective_count = int(collective::gather) + 1;

/// The operation by which a reduction combines the values of the ranks.
enum class reduction { sum, max };

/// A change of placement that a rank makes in its own memory, without communication.
enum class local_move : int {
  none,           ///< the local values do not change; only the placement in the type changes
  slice,          ///< each rank keeps its own block
  zero_pad,       ///< each rank fills the whole value with zeros, except for its block
  mask,           ///< rank 0 keeps its value, the others hold zeros
  keep,           ///< rank k keeps its value, the others drop theirs
  zero_elsewhere  ///< rank k keeps its value, the others hold zeros
};

/// The operation of a transition: a collective, or a local move.
struct row_operation {
  local_move here = local_move::none;
  collective sent = collective::none;
  reduction how = reduction::sum;

  constexpr row_operation() = default;
  constexpr row_operation(local_move moves) : here(moves) {}
  constexpr row_operation(collective moves, reduction combines = reduction::sum)
      : sent(moves), how(combines) {}

  friend constexpr bool operator==(row_operation const&, row_operation const&) = default;
};

/// The all_reduce that leaves the greatest of the ranks' values on every rank.
inline constexpr row_operation all_reduce_max{collective::all_reduce, reduction::max};

/// Returns true if the operation exchanges data between ranks.
[[nodiscard]] constexpr bool communicates(row_operation moves) {
  return moves.sent != collective::none;
}

/// Returns true if the result replaces the operand in the operand's memory. The functions of a
/// layer can make only transitions with such an operation, because ops.move works in place.
[[nodiscard]] constexpr bool reduces_in_place(row_operation moves) {
  return moves.sent == collective::all_reduce;
}

/// Returns the name of the collective; communicators have a function of that name.
[[nodiscard]] constexpr char const* to_string(collective kind) {
  switch (kind) {
    case collective::none: return "none";
    case collective::all_reduce: return "all_reduce";
    case collective::all_gather: return "all_gather";
    case collective::reduce_scatter: return "reduce_scatter";
    case collective::all_to_all: return "all_to_all";
    case collective::broadcast: return "broadcast";
    case collective::send: return "send";
    case collective::receive: return "receive";
    case collective::barrier: return "barrier";
    case collective::reduce: return "reduce";
    case collective::scatter: return "scatter";
    case collective::gather: return "gather";
  }
  return "unknown collective";
}

[[nodiscard]] constexpr char const* to_string(reduction operation) {
  return operation == reduction::sum ? "sum" : "max";
}

/// Returns the name of the local move.
[[nodiscard]] constexpr char const* to_string(local_move moves) {
  switch (moves) {
    case local_move::none: return "none";
    case local_move::slice: return "slice";
    case local_move::zero_pad: return "zero_pad";
    case local_move::mask: return "mask";
    case local_move::keep: return "keep";
    case local_move::zero_elsewhere: return "zero_elsewhere";
  }
  return "unknown move";
}

/// Returns the operation as `explain` prints it, for example "all_reduce(max)" or "slice".
[[nodiscard]] constexpr char const* to_string(row_operation moves) {
  if (!communicates(moves)) return to_string(moves.here);
  return moves == all_reduce_max ? "all_reduce(max)" : to_string(moves.sent);
}

}  // namespace plait::ext
