// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "plait/backend/host/rank_order.hpp"
#include "plait/backend/process/process_engine.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/placement/ranked_sum.hpp"

namespace plait::detail {

/// Room for reductions in rank order, of which a communicator has one: as much as the greatest call
/// so far needed, see ranked_sum; on the root of a reduce 1 MiB for each member.
class reduction_room {
 public:
  [[nodiscard]] std::size_t bytes() const { return size_; }
  [[nodiscard]] std::byte* take(std::size_t bytes) {
    if (bytes > size_) {
      data_ = std::make_unique<std::byte[]>(bytes);
      size_ = bytes;
    }
    return data_.get();
  }

 private:
  std::unique_ptr<std::byte[]> data_;
  std::size_t size_ = 0;
};

/// Sums and maxima over a group of processes, each element by one member, in the order of the
/// ranks: the bits that ranks in one process get. A buffer goes in pieces of at most 1 MiB.
template <class T>
class ranked_reduction {
 public:
  ranked_reduction(process_group& group, int rank, int size, reduction operation,
                   reduction_room& room)
      : group_(group), rank_(rank), size_(std::size_t(size)), operation_(operation), room_(room) {}

  /// In place: blocks of a piece to those who add them up, and the sums to all.
  void all_reduce(T* inout, std::size_t count) {
    auto const [each, room] = ranked_sum::of(count, sizeof(T), size_);
    std::size_t const piece = each * size_;
    auto* const padded = elements(room);
    auto* const others = padded + piece;
    auto* const sum = others + piece;
    for (std::size_t first = 0; first < count; first += piece) {
      std::size_t const here = std::min(piece, count - first);
      bool const is_whole = here == piece;
      T* const from = is_whole ? inout + first : padded;
      if (!is_whole) {
        std::copy_n(inout + first, here, padded);
        std::fill(padded + here, padded + piece, T{});
      }
      group_.all_to_all(from, others, each * sizeof(T));
      combine(others, each, each, sum);
      group_.all_gather(sum, from, each * sizeof(T));
      if (!is_whole) std::copy_n(padded, here, inout + first);
    }
  }

  /// `send` has a block of `count` for each member.
  void reduce_scatter(T const* send, T* receive, std::size_t count) {
    auto const [each, room] = ranked_sum::of(count * size_, sizeof(T), size_);
    auto* const packed = elements(room);
    auto* const others = packed + each * size_;
    auto* const sum = others + each * size_;  // receive may be a block of send
    for (std::size_t first = 0; first < count; first += each) {
      std::size_t const here = std::min(each, count - first);
      for (std::size_t member = 0; member < size_; ++member)
        std::copy_n(send + member * count + first, here, packed + member * here);
      group_.all_to_all(packed, others, here * sizeof(T));
      combine(others, here, here, sum);
      // The own block of send is read to its end before it is written: from here on it is behind.
      std::copy_n(sum, here, receive + first);
    }
  }

  /// To the root alone.
  void reduce(T* inout, std::size_t count, int root) {
    std::size_t const each = std::min(count, ranked_sum::most_bytes / sizeof(T));
    auto* const all = rank_ == root ? elements(each * size_) : nullptr;
    for (std::size_t first = 0; first < count; first += each) {
      std::size_t const here = std::min(each, count - first);
      group_.gather(inout + first, all, here * sizeof(T), root);
      if (rank_ == root) combine(all, here, here, inout + first);
    }
  }

 private:
  [[nodiscard]] T* elements(std::size_t count) {
    return reinterpret_cast<T*>(room_.take(count * sizeof(T)));
  }

  /// Blocks of all members, `stride` apart.
  void combine(T const* blocks, std::size_t stride, std::size_t count, T* out) const {
    combine_in_rank_order<T>(
        operation_, count, static_cast<int>(size_),
        [&](int member) { return blocks + static_cast<std::size_t>(member) * stride; },
        [&](int) { return out; });
  }

  process_group& group_;
  int rank_;
  std::size_t size_;
  reduction operation_;
  reduction_room& room_;
};

}  // namespace plait::detail
