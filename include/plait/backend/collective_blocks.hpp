// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>

#include "plait/backend/collective_call.hpp"
#include "plait/backend/communicator.hpp"

namespace plait::detail {

/// The range [first, last) of elements that one rank sums in an all_reduce.
struct rank_share {
  std::size_t first = 0, last = 0;
};

/// Returns the range of `count` elements on which rank `rank` works. Ranges consist of whole cache
/// lines, so that no two ranks write to the same line if the buffer begins at a cache line.
template <class T>
constexpr rank_share share_of(std::size_t count, int rank, int ranks) {
  constexpr std::size_t line = 64 / sizeof(T);
  auto const lines = (count + line - 1) / line;
  auto const begin = [&](int r) {
    return std::min(count,
                    lines * static_cast<std::size_t>(r) / static_cast<std::size_t>(ranks) * line);
  };
  return {begin(rank), begin(rank + 1)};
}

/// Carries out one member's part of a collective among members that can access each other's
/// buffers: copies or sums the blocks that this member has to write. `T` is the element type, or
/// std::byte if nothing is summed.
///
/// Syntax:  member.rank(), member.size();
///          member.source(i) -> void const*, member.target(i) -> void*: the buffers of member i;
///          member.copy(from, to, bytes), where `from` may equal `to`;
///          member.combine<T>(operation, count, from, to, targets): combines from(i)[k] over i = 0,
///          1, ..., in this order, for all k < `count`, and stores it in to(j)[k] for j <
///          `targets`.
/// Meaning: every member calls this function; no two members write to one element. A member that
///          reads from all members begins with its own buffer, so that not all members read from
///          the same buffer at the same time.
template <collective Kind, class T, class Member>
void do_part(Member const& member, collective_call const& call) {
  std::size_t const count = call.bytes / sizeof(T);
  int const rank = member.rank(), size = member.size();
  // Returns the address of block `index` in the source buffer of member `of`, if this buffer is cut
  // into blocks of `each` elements.
  [[maybe_unused]] auto const source = [&](int of, int index, std::size_t each) {
    return static_cast<T const*>(member.source(of)) + static_cast<std::size_t>(index) * each;
  };
  [[maybe_unused]] auto const target = [&](int of, int index, std::size_t each) {
    return static_cast<T*>(member.target(of)) + static_cast<std::size_t>(index) * each;
  };
  [[maybe_unused]] auto const peer = [&](int i) { return (rank + i) % size; };
  if constexpr (Kind == collective::all_reduce) {
    auto const [first, last] = share_of<T>(count, rank, size);
    member.template combine<T>(
        call.operation, last - first, [&](int from) { return source(from, 0, 0) + first; },
        [&](int i) { return target(peer(i), 0, 0) + first; }, size);
  } else if constexpr (Kind == collective::reduce_scatter) {
    member.template combine<T>(
        call.operation, count, [&](int from) { return source(from, rank, count); },
        [&](int) { return target(rank, 0, 0); }, 1);
  } else if constexpr (Kind == collective::all_gather) {
    for (int i = 0; i < size; ++i)
      member.copy(source(peer(i), 0, 0), target(rank, peer(i), count), call.bytes);
  } else if constexpr (Kind == collective::all_to_all) {
    std::size_t const each = count / static_cast<std::size_t>(size);
    for (int i = 0; i < size; ++i)
      member.copy(source(peer(i), rank, each), target(rank, peer(i), each), each * sizeof(T));
  } else {
    static_assert(Kind == collective::broadcast);
    member.copy(source(call.other, 0, 0), target(rank, 0, 0), call.bytes);
  }
}

}  // namespace plait::detail
