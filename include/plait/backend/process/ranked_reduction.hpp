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

/// The buffer of a communicator for the other ranks' values in a reduction in rank order, see
/// ranked_sum. It grows to the size that the largest call so far needs.
class reduction_room {
 public:
  [[nodiscard]] std::size_t bytes() const { return size_; }
  [[nodiscard]] std::byte* take(std::size_t bytes);

 private:
  std::unique_ptr<std::byte[]> data_;
  std::size_t size_ = 0;
};

/// Computes sums and maxima over a group of processes in rank order, so that results are bit for
/// bit equal to results of ranks in one process. (A library's reduction may add in another order.)
/// One member reduces each element: of 10,000 elements over 4 members, member 1 receives elements
/// 2500 to 4999 from the other three, adds the four blocks in rank order, and sends the sums to the
/// others. Vectors of up to 4096 bytes, and the last elements if the number is not a multiple of
/// the members, are instead gathered, and every member adds them.
template <class T>
class ranked_reduction {
 public:
  ranked_reduction(process_group& group, int rank, int size, reduction operation,
                   reduction_room& room)
      : group_(group), rank_(rank), size_(std::size_t(size)), operation_(operation), room_(room) {}

  /// Replaces `inout` by the result: each member reduces its share, and the members then gather all
  /// shares.
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

  /// Reduces block `rank` of `send` over the members into `receive`. `send` has a block of `count`
  /// elements for each member; `receive` may be this member's block of `send`.
  void reduce_scatter(T const* send, T* receive, std::size_t count) {
    add_shares(ranked_sum::of_shares(count, sizeof(T), size_), send, receive);
  }

 private:
  [[nodiscard]] T* elements(std::size_t count) {
    return reinterpret_cast<T*>(room_.take(count * sizeof(T)));
  }

  /// Reduces this member's share of `all` into `out`, piece by piece. The other members do not
  /// receive the result.
  void add_shares(ranked_sum const& how, T const* all, T* out) {
    T* const others = elements(how.room);
    for (std::size_t first = 0; first < how.share; first += how.piece) {
      std::size_t const here = std::min(how.piece, how.share - first);
      group_.all_to_all(all + first, how.share * sizeof(T), others, here * sizeof(T));
      combine(here, out + first, [&](std::size_t member) { return others + member * here; });
    }
  }

  /// Reduces one block of each member into `out`; block(m) is the address of member m's block.
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
