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
#include "plait/core/header_only.hpp"

// Functions that carry out a collective. They take the calls of all members of a group, in the
// order of the members. A message between two ranks has two calls: first the sender's, then the
// receiver's.

namespace plait::detail {

// Throws if the calls do not agree. `ranks`: world ranks that made the calls; `members`: world
// ranks of the whole group, for the error text.
void check_calls(std::span<collective_call const> calls, std::vector<int> const& ranks,
                 std::vector<int> const& members);

// Declares the memory that member `member` reads in its call.
void name_reads(simulated_operation& now, collective_call const& call, std::size_t member);

// Declares the memory that member `member` writes in its call.
void name_writes(simulated_operation& now, collective_call const& call, std::size_t member);

// The type of do_part's argument `member`, for members whose calls are all known.
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

// Carries out a collective or a message on the buffers of all members.
template <collective Kind, class T>
void do_all_parts(std::span<collective_call const> calls) {
  if constexpr (Kind == collective::send || Kind == collective::receive)
    copy_bytes(calls[1].target, calls[0].source, calls[0].bytes);
  else
    for (std::size_t i = 0; i < calls.size(); ++i)
      do_part<Kind, T>(met_member{calls, static_cast<int>(i)}, calls[i]);
}

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/simulated/simulated_rendezvous.ipp"
#endif
