// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "plait/backend/communicator.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/concat.hpp"
#include "plait/mesh/axis.hpp"
#include "plait/mesh/ranks_text.hpp"
#include "plait/mesh/stream.hpp"

namespace plait::detail {

// What of an element type the ranks compare, and what messages call it ("float32").
struct element_type {
  char kind = ' ';  // 'f', 'b' (bfloat16), 'i', 'u'; ' ' where a call has no elements
  unsigned char bytes = 0;

  friend constexpr bool operator==(element_type, element_type) = default;

  template <class T>
  static constexpr element_type of() {
    static_assert(std::is_arithmetic_v<T> || std::is_same_v<T, bfloat16>,
                  "communicator: the element type is not arithmetic; pass a span of float, "
                  "double, bfloat16 or an integer type");
    char const kind = std::is_same_v<T, bfloat16>   ? 'b'
                      : std::is_floating_point_v<T> ? 'f'
                      : std::is_signed_v<T>         ? 'i'
                                                    : 'u';
    return {kind, static_cast<unsigned char>(sizeof(T))};
  }
};

// One call of one rank, as the other ranks of its group see it.
struct collective_call {
  collective kind = collective::barrier;
  element_type element{};
  reduction operation = reduction::sum;
  int other = 0;                // rank in the group of the root, or of the other end
  int tag = 0;                  // of send and receive
  ext::stream channel{};        // that a posted message is handed to; compute: not posted
  std::size_t bytes = 0;        // of the buffer that has one size on all ranks: vector or block
  std::size_t whole_bytes = 0;  // of the other buffer, if there is one
  void const* source = nullptr;
  void* target = nullptr;
  std::uint64_t caller = 0;  // the number of the trainer that calls; 0 outside of one
  axis_set over{};           // of the group: those of equal members meet in one place

  bool is_posted() const { return ext::is_channel(channel); }
  bool agrees_with(collective_call const& call) const {
    return kind == call.kind && operation == call.operation && other == call.other && fits(call);
  }

  // The same of the two ends of a message.
  bool fits(collective_call const& call) const {
    return element == call.element && tag == call.tag && bytes == call.bytes &&
           caller == call.caller && over == call.over;
  }
};

/// One call that a rank has made in a group of several, as a log has it.
struct logged_call {
  int group = 0;  ///< as the log was asked to call it
  collective kind = collective::barrier;
  element_type element{};
  reduction operation = reduction::sum;
  int other = 0;                 ///< rank in the group of the root, or of the other end
  std::size_t tensor_bytes = 0;  ///< of the whole tensor that the call denotes
};

inline constexpr bool has_root(collective kind) { return kind == collective::broadcast; }

// "all_reduce of 64 bytes on group {0,1}"
[[gnu::cold]] inline std::string call_text(collective_call const& call,
                                           std::vector<int> const& members) {
  std::string text = to_string(call.kind);
  if (call.kind != collective::barrier) text += concat({" of ", call.bytes, " bytes"});
  if (call.kind == collective::all_gather || call.kind == collective::reduce_scatter)
    text += " per rank";
  if (has_root(call.kind) || call.kind == collective::send || call.kind == collective::receive) {
    bool const known = call.other >= 0 && call.other < static_cast<int>(members.size());
    text += call.kind == collective::send ? " to " : " from ";
    text += known ? concat({"rank ", members[static_cast<std::size_t>(call.other)]})
                  : concat({"member ", call.other});
  }
  if (call.kind == collective::send || call.kind == collective::receive)
    text += concat({" with tag ", call.tag});
  return concat({text, " on group ", ranks_in_braces(members)});
}

// The same, with what a waiting rank need not say: "... (float32, sum) for trainer 1".
[[gnu::cold]] inline std::string full_call_text(collective_call const& call,
                                                std::vector<int> const& members) {
  auto text = call_text(call, members);
  if (call.element.kind != ' ') {
    char const* const kind = call.element.kind == 'f'   ? "float"
                             : call.element.kind == 'b' ? "bfloat"
                             : call.element.kind == 'i' ? "int"
                                                        : "uint";
    text += concat({" (", kind, 8 * call.element.bytes});
    if (call.kind == collective::all_reduce) text += concat({", ", to_string(call.operation)});
    text += ")";
  }
  if (call.caller != 0) text += concat({" for trainer ", call.caller});
  return text;
}

// "rank 0 called X, but rank 1 called Y"; the arguments are world ranks.
[[gnu::cold]] inline std::string mismatch_text(int rank_a, collective_call const& a, int rank_b,
                                               collective_call const& b,
                                               std::vector<int> const& members) {
  auto const text = [&](int rank, collective_call const& call) {
    return concat({"rank ", rank, " called ", full_call_text(call, members),
                   (a.over == b.over ? "" : concat({" over ", to_string(call.over)}))});
  };
  return concat({text(rank_a, a), ", but ", text(rank_b, b)});
}

// Throws size_mismatch or input_error if `call`, made by world rank `rank`, cannot be carried out.
// Every member checks the calls of all members in one order, so that all throw the same.
inline void check_shape(int rank, collective_call const& call, std::vector<int> const& members) {
  auto const p = members.size();
  auto const fail = [&](std::string const& reason) {
    throw size_mismatch({"rank ", rank, " called ", call_text(call, members), ": ", reason});
  };
  if (has_root(call.kind) && (call.other < 0 || call.other >= static_cast<int>(p)))
    throw input_error({"rank ", rank, " called ", call_text(call, members),
                       ": the root must be from 0 to ", p - 1});
  switch (call.kind) {
    case collective::all_gather:
    case collective::reduce_scatter:
      if (call.whole_bytes != p * call.bytes)
        fail(concat(
            {"the buffer for all ranks has ", call.whole_bytes, " bytes, not ", p * call.bytes}));
      return;
    case collective::all_to_all:
      if (call.whole_bytes != call.bytes)
        fail(concat({"receive has ", call.whole_bytes, " bytes, but send has ", call.bytes}));
      if (call.bytes % (p * call.element.bytes) != 0)
        fail(concat({"its ", call.bytes / call.element.bytes, " elements cannot be cut into ", p,
                     " equal blocks"}));
      return;
    default: return;
  }
}

}  // namespace plait::detail
