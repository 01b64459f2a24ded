// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "plait/backend/communicator.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/placement/transition.hpp"

namespace plait::execution {

/// The shape of a whole matrix of values, whose blocks are distributed over the ranks of one group.
struct whole_shape {
  std::size_t rows = 0, width = 0;
  [[nodiscard]] constexpr std::size_t count() const { return rows * width; }
};

/// Makes the blocks of a matrix contiguous before a collective, and copies them back after it. A
/// collective moves contiguous memory, but a block of columns is not contiguous in a row-major
/// matrix. So pack() copies the column blocks of all ranks, one after the other, into a staging
/// buffer, and unpack() copies them back. For example, a matrix of 4 rows and 6 columns on 2 ranks
/// becomes the 12 numbers of columns 0 to 2, followed by the 12 numbers of columns 3 to 5. Blocks
/// of rows are contiguous, so they are not copied.
template <class Queue, class Comm, class T>
struct mover {
  Queue queue;
  Comm& comm;
  whole_shape shape;
  T* staging;

  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(comm.size()); }
  [[nodiscard]] std::size_t rank() const { return static_cast<std::size_t>(comm.rank()); }
  [[nodiscard]] std::size_t block() const { return shape.count() / ranks(); }

  void copy(T const* from, T* to, std::size_t count) const {
    queue.copy_bytes(from, to, count * sizeof(T));
  }

  /// Copies the column block of rank `r` from a matrix of whole rows to a matrix that consists of
  /// this block alone, or, if `into_block` is false, in the opposite direction.
  void copy_columns(placement at, std::size_t r, std::size_t rows, T const* from, T* to,
                    bool into_block) const {
    auto const parts = static_cast<std::size_t>(at.parts);
    std::size_t const part = shape.width / parts, piece = part / ranks();
    for (std::size_t g = 0; g < parts; ++g) {
      std::size_t const in_all = g * part + r * piece, in_cut = g * piece;
      if (into_block)
        queue.copy_blocks(from + in_all, shape.width, to + in_cut, parts * piece, rows, piece);
      else queue.copy_blocks(from + in_cut, parts * piece, to + in_all, shape.width, rows, piece);
    }
  }

  void take_block(placement at, std::size_t r, T const* all, T* to) const {
    if (at.index == dim::sequence) copy(all + r * block(), to, block());
    else copy_columns(at, r, shape.rows, all, to, true);
  }
  void put_block(placement at, std::size_t r, T const* from, T* all) const {
    if (at.index == dim::sequence) copy(from, all + r * block(), block());
    else copy_columns(at, r, shape.rows, from, all, false);
  }

  /// Returns the address of a buffer with all blocks of a whole matrix, one after the other. Blocks
  /// of columns are copied to the staging buffer; blocks of rows already have this order, so the
  /// function returns the matrix itself. unpack() does the reverse.
  T const* pack(placement at, T const* all) const {
    if (at.index == dim::sequence) return all;
    for (std::size_t r = 0; r < ranks(); ++r) take_block(at, r, all, staging + r * block());
    return staging;
  }
  T* unpacked(placement at, T* all) const { return at.index == dim::sequence ? all : staging; }
  void unpack(placement at, T* all) const {
    if (at.index == dim::sequence) return;
    for (std::size_t r = 0; r < ranks(); ++r) put_block(at, r, staging + r * block(), all);
  }
};

/// Brings a value from placement `From` to placement `To` in place. The transition must be a
/// reduction, such as partial -> invariant.
///
/// Errors: the errors of the communicator.
template <placement From, placement To, class Comm, class T>
void move_in_place(Comm& comm, std::span<T> values) {
  constexpr auto moves = transition_between(From, To).moves;
  static_assert(
      reduces_in_place(moves),
      "move_in_place<From, To>: this row of the table is not a reduction; use move_value");
  comm.all_reduce(values, moves == collective::all_reduce ? reduction::sum : reduction::max);
}

/// Brings a value from placement `From` to placement `To`, with the collective or the local copy
/// that the transition table contains for these placements. An entry of this table is called a row.
///
/// Shapes: in, out: the local blocks of a value of `shape`. out may be in if the row is none,
///         all_reduce or mask. A rank that has no part of the value may pass null. staging:
///         shape.count() elements, used only if columns are cut.
/// Moves:  bytes_sent(row.moves, ...) over `comm`. `queue` makes the copies; if the row
///         communicates, it must be a queue of the stream of `comm`.
/// Errors: the errors of the communicator.
template <placement From, placement To, class Queue, class Comm, class T>
void move_value(Queue queue, Comm& comm, whole_shape shape, T const* in, T* out, T* staging) {
  constexpr transition row = transition_between(From, To);
  static_assert(row.allowed(),
                "move_value<From, To>: the table of transitions has no row From -> To; move "
                "the value to a placement between them first, such as invariant");
  static_assert(!row.allowed() || row.is_made(),
                "move_value<From, To>: this transition to or from only<k> is a reduce, gather or "
                "scatter, which communicators do not have; move the value to invariant first");
  mover<Queue, Comm, T> const with{queue, comm, shape, staging};
  std::size_t const all = shape.count(), block = with.block();
  bool const at_from =
      is_shard(From) || From.kind != placement_kind::only || comm.rank() == From.index;
  constexpr auto moves = row.moves;
  if constexpr (moves == local_move::none) {
    if (at_from) with.copy(in, out, is_shard(From) ? block : all);
  } else if constexpr (moves == local_move::slice) {
    with.take_block(To, with.rank(), in, out);
  } else if constexpr (moves == local_move::zero_pad) {
    queue.fill(T{0}, out, all);
    with.put_block(From, with.rank(), in, out);
  } else if constexpr (moves == local_move::mask) {
    if (comm.rank() == 0) with.copy(in, out, all);
    else queue.fill(T{0}, out, all);
  } else if constexpr (moves == local_move::keep) {
    if (comm.rank() == To.index) with.copy(in, out, all);
  } else if constexpr (moves == local_move::zero_elsewhere) {
    if (at_from) with.copy(in, out, all);
    else queue.fill(T{0}, out, all);
  } else if constexpr (reduces_in_place(moves)) {
    with.copy(in, out, all);
    move_in_place<From, To>(comm, std::span(out, all));
  } else if constexpr (moves == collective::all_gather) {
    comm.all_gather(std::span(in, block), std::span(with.unpacked(From, out), all));
    with.unpack(From, out);
  } else if constexpr (moves == collective::reduce_scatter) {
    comm.reduce_scatter(std::span(with.pack(To, in), all), std::span(out, block));
  } else if constexpr (moves == collective::all_to_all) {
    std::size_t const rows = shape.rows / with.ranks(), piece = block / with.ranks();
    if constexpr (From.index == dim::sequence) {
      for (std::size_t r = 0; r < with.ranks(); ++r)
        with.copy_columns(To, r, rows, in, staging + r * piece, true);
      comm.all_to_all(std::span(staging, block), std::span(out, block));
    } else {
      comm.all_to_all(std::span(in, block), std::span(staging, block));
      for (std::size_t r = 0; r < with.ranks(); ++r)
        with.copy_columns(From, r, rows, staging + r * piece, out, false);
    }
  } else if constexpr (moves == collective::broadcast) {
    if (at_from) with.copy(in, out, all);
    comm.broadcast(std::span(out, all), From.index);
  } else if constexpr (moves == collective::send) {
    if (comm.rank() == From.index) comm.send(std::span(in, all), To.index, 0);
    if (comm.rank() == To.index) comm.receive(std::span(out, all), From.index, 0);
  }
}

}  // namespace plait::execution
