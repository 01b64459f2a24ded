// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "plait/backend/communicator.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/header_only.hpp"
#include "plait/mesh/axis.hpp"
#include "plait/mesh/stream.hpp"

namespace plait::detail {

// The properties of an element type that ranks compare. Error messages show them as, for example,
// "float32".
struct element_type {
  char kind = ' ';  // 'f', 'b' (bfloat16), 'i', 'u'; ' ' if a call has no elements
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

/// Work of a call's stream that runs before and after the transfer of the call, in the thread that
/// carries the call out. It rounds the values that a call sends, for example, and adds up those
/// that the call has received. The work consists of a few numbers, so that a communicator can copy
/// it if another thread carries the call out later.
struct call_work {
  /// Does the work before the transfer, or after it.
  void (*run)(call_work const& of, bool is_after) = nullptr;
  void const* by = nullptr;  ///< the object that does the work; it outlives the call
  void* data = nullptr;      ///< the values
  std::size_t begin = 0, count = 0, block = 0;
  int ranks = 1, rank = 0, roots = 1;
};

// One call of one rank: the information that the other ranks of its group compare with their own
// calls.
struct collective_call {
  collective kind = collective::barrier;
  element_type element{};
  reduction operation = reduction::sum;
  int other = 0;          // rank in the group: the root of a broadcast, or the peer of a message
  int tag = 0;            // the tag of a message; used only by send and receive
  ext::stream channel{};  // channel of a posted message; stream::compute: the message is not posted
  std::size_t bytes = 0;  // size of the buffer of one rank: the vector or block, equal on all ranks
  std::size_t whole_bytes = 0;  // size of the second buffer of the call, if there is one
  void const* source = nullptr;
  void* target = nullptr;
  std::uint64_t caller = 0;  // number of the trainer that calls; 0: none
  // Axes of the group. Ranks compare them, because groups with equal members share a barrier.
  axis_set over{};
  call_work const* work = nullptr;  // work before and after the transfer; null: none

  void begin_work() const {
    if (work != nullptr) work->run(*work, false);
  }
  void end_work() const {
    if (work != nullptr) work->run(*work, true);
  }
  bool is_posted() const { return ext::is_channel(channel); }
  bool agrees_with(collective_call const& call) const {
    return kind == call.kind && operation == call.operation && other == call.other && fits(call);
  }

  // Returns true if a send and a receive agree, so that the message can be transferred.
  bool fits(collective_call const& call) const;
};

/// An entry of the log of calls that communicator_calls::log_calls writes: one call of a rank in
/// one of its groups.
struct logged_call {
  int group = 0;  ///< number of the group, set by the caller of log_calls
  collective kind = collective::barrier;
  element_type element{};
  reduction operation = reduction::sum;
  int other = 0;  ///< rank in the group: the root of a broadcast, or the peer of a message
  std::size_t tensor_bytes = 0;  ///< the argument tensor_bytes of traffic::bytes_sent
};

inline constexpr bool has_root(collective kind) { return kind == collective::broadcast; }

// Returns text such as "all_reduce of 64 bytes on group {0,1}".
[[gnu::cold]] std::string call_text(collective_call const& call, std::vector<int> const& members);

// Returns text such as "rank 0 called X, but rank 1 called Y"; all arguments that name ranks are
// world ranks.
[[gnu::cold]] std::string mismatch_text(int rank_a, collective_call const& a, int rank_b,
                                        collective_call const& b, std::vector<int> const& members);

// Throws size_mismatch or input_error if `call`, which world rank `rank` has made, cannot be
// carried out. Every member checks the calls of all members in the same order, so that all members
// throw the same exception.
void check_shape(int rank, collective_call const& call, std::vector<int> const& members);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/collective_call.ipp"
#endif
