// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include "plait/backend/collective_call.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/float8.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/rounded_block.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/placement/slice_tree.hpp"
#include "plait/plan/schedule/program_operation.hpp"
#include "plait/plan/sharding/gradient_arena.hpp"
#include "plait/run/transfer_runner.hpp"

namespace plait::execution {

/// The type in which ranks send gradients of type `Sum`: `Sum` itself or a rounded_block.
template <class Sum, wire_format Format>
using sent_type = std::conditional_t<
    Format == wire_format::unrounded, Sum,
    rounded_block<std::conditional_t<Format == wire_format::float8, float8, bfloat16>>>;

/// The block_exchange of a plan that does not round gradients.
struct no_exchange {
  template <class Rank, class Sum>
  no_exchange(Rank&, gradient_arena const&, Sum*) {}
};

/// Reduce-scatters a range of gradients in calls of all_to_all: each rank receives all ranks'
/// summands of its own block of the range, and adds them up in a fixed order. A rank has one
/// summand or, in a plan with slices, one for each of its roots (see slice_sums). If ranks round
/// what they send, the class also all-gathers the rounded sums. The summands of a block pass
/// through a send buffer and a receive buffer in the arena of gradients, piece by piece, so that
/// the buffers stay small.
///
/// For example, 2 ranks reduce 4 MiB of float gradients as bfloat16. Each rank owns a block of 2
/// MiB, which takes two calls. In each call a rank rounds 262144 gradients of both blocks to 1 MiB
/// in all, sends half of it to the other rank, and adds the two rounded values of each gradient of
/// its own block. Both ranks then gather the rounded sums.
///
/// Cost:    one pass over the gradients to pack them and one to add them up; no call allocates.
/// Errors:  the errors of the communicator.
/// Threads: the one thread that runs the rank calls run(). The thread that carries out a call packs
///          before the call and adds up after it.
template <class Sum, wire_format Format, class Rank>
class block_exchange {
  using sent = sent_type<Sum, Format>;
  static constexpr bool rounds = Format != wire_format::unrounded;

 public:
  /// `gradients`: the arena with the layout `layout`. `sums`: the order in which the roots of all
  /// ranks are added if ranks do not round, see slice_tree::sums_of_roots.
  [[gnu::cold]] block_exchange(Rank& rank, gradient_arena const& layout, Sum* gradients,
                               lean_vector<slice_tree::sum> sums = {})
      : rank_(rank),
        sent_(reinterpret_cast<sent*>(gradients + layout.sent_at)),
        received_(reinterpret_cast<sent*>(gradients + layout.received_at)),
        stride_(layout.stride),
        roots_of_ranks_(std::size_t(layout.roots)),
        sums_(std::move(sums)) {}
  block_exchange(block_exchange const&) = delete;
  block_exchange& operator=(block_exchange const&) = delete;

  /// Carries out the row of an operation: sums up the blocks of a range, or gathers the rounded
  /// sums of all blocks. `data`: the arena to which the row's offset refers, with this rank's first
  /// root; the sum of this rank's block replaces its part of the root. `roots`: the number of this
  /// rank's roots.
  void run(transfer_runner<Rank> const& transfers, program_operation const& of, Sum* data,
           int roots = 1) const {
    auto const& row = transfers.row(of.row);
    auto const ranks = std::size_t(row.group->size());
    std::size_t const block = row.what.elements() / ranks;
    bool const gathers = row.moves == collective::all_gather;
    call_work now{.run = gathers ? &work_of_gather : &work_of_sum,
                  .by = this,
                  .data = transfers.place_of(of, data),
                  .block = block,
                  .ranks = row.group->size(),
                  .rank = row.group->rank(),
                  .roots = roots};
    for (; now.begin < block; now.begin += row.what.piece) {
      now.count = std::min(row.what.piece, block - now.begin);
      std::size_t const each = words_in(now.count), all = ranks * each;
      transfers.run_piece(of.row, std::span(words(sent_), gathers ? each : all),
                          std::span(words(received_), all), now);
    }
  }

 private:
  // The range that a piece is a part of, and the piece of each rank's block.
  struct piece {
    Sum* range;
    std::size_t begin, count, block, ranks, rank;
    int roots;

    explicit piece(call_work const& of)
        : range(static_cast<Sum*>(of.data)),
          begin(of.begin),
          count(of.count),
          block(of.block),
          ranks(std::size_t(of.ranks)),
          rank(std::size_t(of.rank)),
          roots(of.roots) {}
    [[nodiscard]] Sum* of_rank(std::size_t r) const { return range + r * block + begin; }
  };

  static void work_of_sum(call_work const& of, bool is_after) {
    auto const& self = *static_cast<block_exchange const*>(of.by);
    is_after ? self.add_up(piece(of)) : self.pack(piece(of));
  }
  static void work_of_gather(call_work const& of, bool is_after) {
    auto const& self = *static_cast<block_exchange const*>(of.by);
    is_after ? self.unpack(piece(of)) : self.pack_sum(piece(of));
  }

  /// Copies or rounds the piece of every block of each of this rank's roots.
  void pack(piece const& of) const {
    if constexpr (rounds) {
      for (std::size_t r = 0; r < of.ranks; ++r)
        queue().round_blocks(of.of_rank(r), sent_ + r * blocks_in(of.count), blocks_in(of.count));
    } else {
      for (int root = 0; root < of.roots; ++root)
        queue().copy_blocks(of.of_rank(0) + std::size_t(root) * stride_, of.block,
                            sent_ + std::size_t(root) * of.count, words_in(of.count), of.ranks,
                            of.count);
    }
  }
  /// Adds up the summands of this rank's block that all ranks have sent.
  void add_up(piece const& of) const {
    Sum* const to = of.of_rank(of.rank);
    if constexpr (rounds) {
      std::size_t const each = blocks_in(of.count);
      queue().widen_blocks(received_, to, each);
      for (std::size_t r = 1; r < of.ranks; ++r) queue().add_blocks(received_ + r * each, to, each);
    } else {
      auto const root_at = [&](int root) { return received_ + std::size_t(root) * of.count; };
      for (auto const& [sum, from] : sums_)
        queue().add(root_at(sum), root_at(from), root_at(sum), of.count);
      queue().copy_bytes(received_, to, of.count * sizeof(Sum));
    }
  }
  /// Rounds the sums of this rank's block.
  void pack_sum(piece const& of) const {
    if constexpr (rounds) queue().round_blocks(of.of_rank(of.rank), sent_, blocks_in(of.count));
  }
  /// Replaces the sums of all blocks, also of this rank's block, by the rounded sums.
  void unpack(piece const& of) const {
    if constexpr (rounds)
      for (std::size_t r = 0; r < of.ranks; ++r)
        queue().widen_blocks(received_ + r * blocks_in(of.count), of.of_rank(r),
                             blocks_in(of.count));
  }

  // The device waits for calls that are under way when its queue is requested, so each piece of
  // work requests the queue when it runs.
  [[nodiscard]] auto queue() const { return rank_.device().on(stream_of(batch_axes)); }
  static constexpr std::size_t blocks_in(std::size_t count) { return count / rounded_elements; }
  /// The number of elements, of the type that communicators move, in which `count` gradients of
  /// each root are sent.
  [[nodiscard]] std::size_t words_in(std::size_t count) const {
    return sent_count(Format, count) * roots_of_ranks_;
  }
  static auto* words(sent* of) {
    if constexpr (rounds) return reinterpret_cast<wire_word*>(of);
    else return of;
  }

  Rank& rank_;
  sent *sent_, *received_;
  std::size_t stride_, roots_of_ranks_;
  lean_vector<slice_tree::sum> sums_;
};

}  // namespace plait::execution
