// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace plait {

/// A way in which the ranks of a group exchange data.
enum class collective : int {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast,
  send,
  receive,
  barrier
};

/// The number of values of `collective`.
inline constexpr int collective_count = 8;

/// The name of the member function that a communicator offers for `kind`.
[[nodiscard]] constexpr char const* to_string(collective kind) {
  switch (kind) {
    case collective::all_reduce: return "all_reduce";
    case collective::all_gather: return "all_gather";
    case collective::reduce_scatter: return "reduce_scatter";
    case collective::all_to_all: return "all_to_all";
    case collective::broadcast: return "broadcast";
    case collective::send: return "send";
    case collective::receive: return "receive";
    case collective::barrier: return "barrier";
  }
  return "unknown collective";
}

}  // namespace plait
