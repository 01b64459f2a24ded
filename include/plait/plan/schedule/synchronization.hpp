// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/plan/schedule/program_operation.hpp"

namespace plait::ext {

/// A place in the program at which one stream waits for an operation of another stream. All waits
/// of a job happen at such places; backends name them in reports.
struct wait_site {
  enum class part : std::uint8_t {
    forward,    ///< in a forward, between nodes; numbers are nodes of the plan's program
    recompute,  ///< in a recompute; numbers are nodes that run again for a backward
    backward,   ///< in a backward; numbers are nodes, which run in the opposite order
    /// Inside a layer: `waiting` is the number of the leaf; `awaited` is 2 k for the wait before
    /// move k of the leaf's form, and 2 k + 1 for the wait after it.
    layer,
    step  ///< between operations of a rank's program; numbers are results of site_number
  };
  part where = part::forward;
  int waiting = 0;
  int awaited = 0;

  friend constexpr auto operator<=>(wait_site const&, wait_site const&) = default;
};

/// The properties of an operation that determine its waits: its stream, and the numbers of the
/// buffers that it reads and writes.
struct stream_operation {
  stream on = stream::compute;
  lean_vector<int> reads{};
  lean_vector<int> writes{};
  bool host_waits = false;  ///< true if the host waits for all streams after this operation
};

/// A wait: operation `waiting` may begin only after operation `awaited`, of another stream, has
/// ended.
struct planned_wait {
  int waiting = 0;
  int awaited = 0;
  friend constexpr bool operator==(planned_wait const&, planned_wait const&) = default;
};

}  // namespace plait::ext

namespace plait::detail {

/// Does the work of plan_waits at run time; the code of this function is in the runtime library.
[[nodiscard]] [[gnu::cold]] ext::lean_vector<ext::planned_wait> plan_waits_at_run_time(
    ext::lean_vector<ext::stream_operation> const& operations);

[[nodiscard]] [[gnu::cold]] constexpr ext::lean_vector<ext::planned_wait> planned_waits(
    ext::lean_vector<ext::stream_operation> const& operations) {
  // For each stream, the last operation that is known to have ended.
  using clock = std::array<int, std::size_t(ext::stream_count)>;
  constexpr clock nothing{-1, -1, -1, -1, -1, -1, -1, -1};
  struct last_touches {
    clock writes, reads;
  };
  std::size_t streams = 1;  // number of streams in use; with fewer streams, compilers evaluate
                            // fewer steps
  for (auto const& one : operations) streams = std::max(streams, std::size_t(one.on) + 1);
  auto const meet = [streams](clock& one, clock const& other) {
    for (std::size_t s = 0; s < streams; ++s) one[s] = std::max(one[s], other[s]);
  };
  int most = -1;
  for (auto const& one : operations)
    for (auto const* const touched : {&one.reads, &one.writes})
      for (int const buffer : *touched) most = std::max(most, buffer);
  ext::lean_vector<last_touches> buffers(std::size_t(most + 1), {nothing, nothing});
  ext::lean_vector<clock> known(operations.size(), nothing);
  clock last = nothing, rested = nothing;
  ext::lean_vector<ext::planned_wait> out;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    auto const& now = operations[i];
    auto const here = static_cast<std::size_t>(now.on);
    auto& mine = known[i];
    mine = rested;
    if (last[here] >= 0) meet(mine, known[std::size_t(last[here])]);
    clock awaited = nothing;
    for (int const buffer : now.reads) meet(awaited, buffers[std::size_t(buffer)].writes);
    for (int const buffer : now.writes) {
      meet(awaited, buffers[std::size_t(buffer)].writes);
      meet(awaited, buffers[std::size_t(buffer)].reads);
    }
    awaited[here] = -1;
    // The latest operation comes first: operations for which it has waited need no wait of their
    // own.
    for (std::size_t n = 1; n < streams; ++n) {
      std::size_t s = 0;
      for (std::size_t other = 1; other < streams; ++other)
        if (awaited[other] > awaited[s]) s = other;
      int const latest = std::exchange(awaited[s], -1);
      if (latest < 0) break;
      if (mine[s] >= latest) continue;
      out.push_back({static_cast<int>(i), latest});
      meet(mine, known[std::size_t(latest)]);
    }
    last[here] = mine[here] = static_cast<int>(i);
    if (now.host_waits) rested = last;
    for (int const buffer : now.reads) buffers[std::size_t(buffer)].reads[here] = last[here];
    for (int const buffer : now.writes) buffers[std::size_t(buffer)].writes[here] = last[here];
  }
  return out;
}

}  // namespace plait::detail

namespace plait::ext {

/// Returns the waits that a list of operations needs if the operations are passed to their streams
/// in this order.
///
/// Streams run concurrently, so an operation that reads a buffer must wait for an operation of
/// another stream that writes it. An operation that writes a buffer must wait for earlier readers
/// and writers. For each operation the function keeps a vector clock: for each stream, the last
/// operation that is known to have ended when this one begins. A wait is listed only if the clock
/// does not already imply it, by the order of a stream or through a third stream. So each listed
/// wait is necessary: without it two operations on one buffer, one of which writes, could run in
/// either order. Example: compute writes a (0), compute writes b (1), data reads b (2), data reads
/// a (3). Operation 2 waits for 1; operation 3 needs no wait, since it follows 2.
/// Cost:   proportional to the number of buffers that the operations touch.
/// Source: vector clocks; Mattern, "Virtual time and global states of distributed systems", 1989.
[[nodiscard]] [[gnu::cold]] constexpr lean_vector<planned_wait> plan_waits(
    lean_vector<stream_operation> const& operations) {
  if (__builtin_is_constant_evaluated()) return detail::planned_waits(operations);
  return detail::plan_waits_at_run_time(operations);
}

/// Returns text such as "forward: 7 waits for 6", or "step: row 14 waits for add".
[[nodiscard]] std::string to_string(wait_site const& site);

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/plan/schedule/synchronization.ipp"
#endif
