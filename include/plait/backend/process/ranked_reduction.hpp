// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "plait/backend/host/rank_order.hpp"
#include "plait/backend/process/process_engine.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/header_only.hpp"
#include "plait/placement/ranked_sum.hpp"

namespace plait::detail {

/// Room for reductions in rank order, of which a communicator has one: as much as the greatest call
/// so far needed, see ranked_sum.
class reduction_room {
 public:
  [[nodiscard]] std::size_t bytes() const { return size_; }
  [[nodiscard]] std::byte* take(std::size_t bytes);

 private:
  std::unique_ptr<std::byte[]> data_;
  std::size_t size_ = 0;
};

/// Sums and maxima over a group of processes, each element by one member, in the order of the
/// ranks: the bits that ranks in one process get.
template <class T>
class ranked_reduction {
 public:
  ranked_reduction(process_group& group, int rank, int size, reduction operation,
                   reduction_room& room)
      : group_(group), rank_(rank), size_(std::size_t(size)), operation_(operation), room_(room) {}

  /// In place: each member adds up its share and gathers the others'.
  void all_reduce(T* inout, std::size_t count) {
    auto const how = ranked_sum::of(count, sizeof(T), size_);
    if (how.share > 0) {
      T* const mine = inout + std::size_t(rank_) * how.share;
      add_shares(how, inout, mine);
      group_.all_gather(mine, inout, how.share * sizeof(T));
    }
    if (how.rest > 0) {
      T* const rest = inout + (count - how.rest);
      T* const all = elements(how.room);
      group_.all_gather(rest, all, how.rest * sizeof(T));
      combine(how.rest, rest, [&](std::size_t member) { return all + member * how.rest; });
    }
  }

  /// `send` has a block of `count` for each member; `receive` may be this member's.
  void reduce_scatter(T const* send, T* receive, std::size_t count) {
    add_shares(ranked_sum::of_shares(count, sizeof(T), size_), send, receive);
  }

 private:
  [[nodiscard]] T* elements(std::size_t count) {
    return reinterpret_cast<T*>(room_.take(count * sizeof(T)));
  }

  /// Adds up this member's share of `all`. The sums are not sent to anybody yet.
  void add_shares(ranked_sum const& how, T const* all, T* out) {
    T* const others = elements(how.room);
    for (std::size_t first = 0; first < how.share; first += how.piece) {
      std::size_t const here = std::min(how.piece, how.share - first);
      group_.all_to_all(all + first, how.share * sizeof(T), others, here * sizeof(T));
      combine(here, out + first, [&](std::size_t member) { return others + member * here; });
    }
  }

  /// The blocks of all members, the first at block(0).
  template <class Block>
  void combine(std::size_t count, T* out, Block block) const {
    combine_in_rank_order<T>(
        operation_, count, static_cast<int>(size_),
        [&](int member) { return block(static_cast<std::size_t>(member)); },
        [&](int) { return out; });
  }

  process_group& group_;
  int rank_;
  std::size_t size_;
  reduction operation_;
  reduction_room& room_;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/process/ranked_reduction.ipp"
#endif
