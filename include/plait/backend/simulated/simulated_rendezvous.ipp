// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/simulated/simulated_rendezvous.hpp"

#include "plait/core/error.hpp"

namespace plait::detail {

PLAIT_DECL void check_calls(std::span<collective_call const> calls, std::vector<int> const& ranks,
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

PLAIT_DECL void name_reads(simulated_operation& now, collective_call const& call,
                           std::size_t member) {
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

PLAIT_DECL void name_writes(simulated_operation& now, collective_call const& call,
                            std::size_t member) {
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

}  // namespace plait::detail
