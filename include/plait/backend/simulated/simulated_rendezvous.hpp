// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "plait/backend/collective_blocks.hpp"
#include "plait/backend/collective_call.hpp"
#include "plait/backend/communicator.hpp"
#include "plait/backend/host/rank_order.hpp"
#include "plait/backend/simulated/simulated_operation.hpp"
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
  for (std::size_t i = 0; i < calls.size(); ++i) check_shape(ranks[i], calls[i], members);
}

// What member `member` reads.
inline void name_reads(simulated_operation& now, collective_call const& call, std::size_t member) {
  bool const is_root = call.other == static_cast<int>(member);
  switch (call.kind) {
    case collective::all_reduce:
    case collective::all_gather:
    case collective::all_to_all:
    case collective::send: return now.read_bytes(call.source, call.bytes);
    case collective::reduce_scatter: return now.read_bytes(call.source, call.whole_bytes);
    case collective::broadcast:
      if (is_root) now.read_bytes(call.source, call.bytes);
      return;
    default: return;
  }
}

// What member `member` writes.
inline void name_writes(simulated_operation& now, collective_call const& call, std::size_t member) {
  bool const is_root = call.other == static_cast<int>(member);
  switch (call.kind) {
    case collective::all_reduce:
    case collective::all_to_all:
    case collective::reduce_scatter:
    case collective::receive: return now.write_bytes(call.target, call.bytes);
    case collective::all_gather: return now.write_bytes(call.target, call.whole_bytes);
    case collective::broadcast:
      if (!is_root) now.write_bytes(call.target, call.bytes);
      return;
    default: return;
  }
}

// What do_part() needs of a member.
struct met_member {
  std::span<collective_call const> calls;
  int number;

  [[nodiscard]] int rank() const { return number; }
  [[nodiscard]] int size() const { return static_cast<int>(calls.size()); }
  [[nodiscard]] void const* source(int member) const { return call(member).source; }
  [[nodiscard]] void* target(int member) const { return call(member).target; }
  void copy(void const* from, void* to, std::size_t bytes) const { copy_bytes(to, from, bytes); }
  template <class T>
  void combine(reduction operation, std::size_t count, auto from, auto to, int targets) const {
    combine_in_rank_order<T>(operation, count, size(), from, to, targets);
  }

 private:
  [[nodiscard]] collective_call const& call(int member) const {
    return calls[static_cast<std::size_t>(member)];
  }
};

// Carries out the calls of all members.
template <collective Kind, class T>
void do_all_parts(std::span<collective_call const> calls) {
  if constexpr (Kind == collective::send || Kind == collective::receive)
    copy_bytes(calls[1].target, calls[0].source, calls[0].bytes);
  else
    for (std::size_t i = 0; i < calls.size(); ++i)
      do_part<Kind, T>(met_member{calls, static_cast<int>(i)}, calls[i]);
}

}  // namespace plait::detail
