// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "plait/backend/collective_call.hpp"
#include "plait/backend/communicator.hpp"
#include "plait/backend/host/rank_order.hpp"
#include "plait/backend/simulated/execution.hpp"
#include "plait/core/error.hpp"

// What the calls of the members of a group, given in the order of the members, do together. The
// calls of a message are those of the sender and the receiver.

namespace plait::detail {

// Throws if the calls do not fit; `ranks` made them, `members` are the group's.
inline void check_calls(std::span<collective_call const> calls, std::vector<int> const& ranks,
                        std::vector<int> const& members) {
  bool const is_message = calls.front().kind == collective::send;
  for (std::size_t i = 1; i < calls.size(); ++i) {
    bool const agrees = is_message ? calls[0].fits(calls[i]) : calls[0].agrees_with(calls[i]);
    if (!agrees)
      throw collective_mismatch(mismatch_text(ranks[0], calls[0], ranks[i], calls[i], members));
  }
  if (is_message) return;
  for (std::size_t i = 0; i < calls.size(); ++i)
    check_shape(ranks[i], static_cast<int>(i) == calls[i].other, calls[i], members);
}

// What member `member` reads.
inline void name_reads(execution& now, collective_call const& call, std::size_t member) {
  bool const is_root = call.other == static_cast<int>(member);
  switch (call.kind) {
    case collective::all_reduce:
    case collective::all_gather:
    case collective::all_to_all:
    case collective::reduce:
    case collective::gather:
    case collective::send: return now.read_bytes(call.source, call.bytes);
    case collective::reduce_scatter: return now.read_bytes(call.source, call.whole_bytes);
    case collective::broadcast:
      if (is_root) now.read_bytes(call.source, call.bytes);
      return;
    case collective::scatter:
      if (is_root) now.read_bytes(call.source, call.whole_bytes);
      return;
    case collective::receive:
    case collective::barrier: return;
  }
}

// What member `member` writes.
inline void name_writes(execution& now, collective_call const& call, std::size_t member) {
  bool const is_root = call.other == static_cast<int>(member);
  switch (call.kind) {
    case collective::all_reduce:
    case collective::all_to_all:
    case collective::reduce_scatter:
    case collective::scatter:
    case collective::receive: return now.write_bytes(call.target, call.bytes);
    case collective::all_gather: return now.write_bytes(call.target, call.whole_bytes);
    case collective::broadcast:
      if (!is_root) now.write_bytes(call.target, call.bytes);
      return;
    case collective::reduce:
      if (is_root) now.write_bytes(call.target, call.bytes);
      return;
    case collective::gather:
      if (is_root) now.write_bytes(call.target, call.whole_bytes);
      return;
    case collective::send:
    case collective::barrier: return;
  }
}

inline std::byte* block_of(void* data, std::size_t index, std::size_t bytes) {
  return static_cast<std::byte*>(data) + index * bytes;
}
inline std::byte const* block_of(void const* data, std::size_t index, std::size_t bytes) {
  return static_cast<std::byte const*>(data) + index * bytes;
}

// Moves the blocks of a call that adds nothing.
inline void move_blocks(std::span<collective_call const> calls) {
  auto const& first = calls.front();
  std::size_t const ranks = calls.size(), root = static_cast<std::size_t>(first.other);
  std::size_t const bytes = first.bytes;
  for (std::size_t to = 0; to < ranks; ++to) {
    void* const target = calls[to].target;
    switch (first.kind) {
      case collective::all_gather:
        for (std::size_t from = 0; from < ranks; ++from)
          copy_bytes(block_of(target, from, bytes), calls[from].source, bytes);
        break;
      case collective::all_to_all:
        for (std::size_t from = 0; from < ranks; ++from)
          copy_bytes(block_of(target, from, bytes / ranks),
                     block_of(calls[from].source, to, bytes / ranks), bytes / ranks);
        break;
      case collective::broadcast: copy_bytes(target, calls[root].source, bytes); break;
      case collective::gather:
        copy_bytes(block_of(calls[root].target, to, bytes), calls[to].source, bytes);
        break;
      case collective::scatter:
        copy_bytes(target, block_of(calls[root].source, to, bytes), bytes);
        break;
      default: break;
    }
  }
  if (first.kind == collective::send) copy_bytes(calls[1].target, first.source, bytes);
}

// Adds up in the order of the ranks: the same bits as thread_communicator.
template <class T>
void combine(std::span<collective_call const> calls) {
  auto const& first = calls.front();
  int const ranks = static_cast<int>(calls.size());
  std::size_t const bytes = first.bytes, count = bytes / sizeof(T);
  auto const source = [&](int rank) {
    return static_cast<T const*>(calls[static_cast<std::size_t>(rank)].source);
  };
  auto const store_in = [](void* target, std::size_t at, T const* values, std::size_t how_many) {
    copy_bytes(static_cast<T*>(target) + at, values, how_many * sizeof(T));
  };
  if (first.kind == collective::reduce_scatter) {
    for (std::size_t to = 0; to < calls.size(); ++to)
      combine_in_rank_order<T>(
          {0, count}, ranks, reduction::sum, [&](int rank) { return source(rank) + to * count; },
          [&](std::size_t at, T const* values, std::size_t how_many) {
            store_in(calls[to].target, at, values, how_many);
          });
    return;
  }
  combine_in_rank_order<T>({0, count}, ranks, first.operation, source,
                           [&](std::size_t at, T const* values, std::size_t how_many) {
                             if (first.kind == collective::reduce)
                               return store_in(calls[static_cast<std::size_t>(first.other)].target,
                                               at, values, how_many);
                             for (auto const& call : calls)
                               store_in(call.target, at, values, how_many);
                           });
}

}  // namespace plait::detail
