// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plait/mesh/stream.hpp"

namespace plait {

/// A place in the program at which one stream waits for an operation of another one. Every wait of
/// a job happens at such a place; backends name them in reports.
struct wait_site {
  enum class part : std::uint8_t {
    forward,   ///< numbers: steps of the plan's program
    backward,  ///< the same, walked from the end
    layer,  ///< inside a layer's body; numbers: the leaf, and twice the move (+ 1 for the way back)
    timetable,  ///< numbers: kinds of `work`
    step  ///< numbers: rows of the list, and below 0 the phases of a step; see step_operations_of
  };
  part where = part::forward;
  int waiting = 0;
  int awaited = 0;

  friend constexpr auto operator<=>(wait_site const&, wait_site const&) = default;
};

/// One operation as synchronisation sees it: its stream and the buffers that it touches, by number.
struct stream_operation {
  stream on = stream::compute;
  std::vector<int> reads{};
  std::vector<int> writes{};
};

/// Operation `waiting` may not begin before operation `awaited`, of another stream, has ended.
struct planned_wait {
  int waiting = 0;
  int awaited = 0;
  friend constexpr bool operator==(planned_wait const&, planned_wait const&) = default;
};

/// The waits without which a list of operations, handed to streams in this order, could read or
/// overwrite a buffer too early.
///
/// A wait that others imply (by the order of a stream, or through a third stream) is not among
/// them; each one that is listed is needed: without it two operations that touch one buffer, one of
/// them writing, would run in either order.
/// Cost:   O(buffers + what the operations read and write).
/// Source: vector clocks; Mattern, "Virtual time and global states of distributed systems", 1989.
[[nodiscard]] constexpr std::vector<planned_wait> plan_waits(
    std::vector<stream_operation> const& operations) {
  using clock = std::array<int, std::size_t(stream_count)>;  // the last known operation of each
  constexpr clock nothing{-1, -1, -1, -1};
  auto const at = [](stream on) { return static_cast<std::size_t>(on); };
  int last_buffer = -1;
  for (auto const& now : operations) {
    for (int const buffer : now.reads) last_buffer = std::max(last_buffer, buffer);
    for (int const buffer : now.writes) last_buffer = std::max(last_buffer, buffer);
  }
  // The last operation of each stream that has read or written a buffer.
  std::vector<clock> read(std::size_t(last_buffer + 1), nothing);
  std::vector<clock> written(std::size_t(last_buffer + 1), nothing);
  std::vector<clock> known(operations.size(), nothing);
  clock last = nothing;
  std::vector<planned_wait> out;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    auto const& now = operations[i];
    clock mine = nothing;
    if (int const before = last[at(now.on)]; before >= 0) mine = known[std::size_t(before)];
    // The last operation of each other stream that touches a buffer of this one in conflict with
    // it: a stream's earlier ones are known with that.
    clock awaited = nothing;
    auto const add = [&](clock const& from) {
      for (std::size_t s = 0; s < awaited.size(); ++s)
        if (s != at(now.on) && from[s] > awaited[s]) awaited[s] = from[s];
    };
    for (int const buffer : now.reads) add(written[std::size_t(buffer)]);
    for (int const buffer : now.writes)
      add(written[std::size_t(buffer)]), add(read[std::size_t(buffer)]);
    // From the latest on: what it has seen itself needs no wait of its own.
    while (true) {
      std::size_t const s =
          std::size_t(std::max_element(awaited.begin(), awaited.end()) - awaited.begin());
      int const j = awaited[s];
      if (j < 0) break;
      awaited[s] = -1;
      if (mine[s] >= j) continue;
      out.push_back({static_cast<int>(i), j});
      for (std::size_t k = 0; k < mine.size(); ++k)
        mine[k] = std::max(mine[k], known[std::size_t(j)][k]);
    }
    mine[at(now.on)] = static_cast<int>(i);
    known[i] = mine;
    last[at(now.on)] = static_cast<int>(i);
    for (int const buffer : now.reads) read[std::size_t(buffer)][at(now.on)] = static_cast<int>(i);
    for (int const buffer : now.writes)
      written[std::size_t(buffer)][at(now.on)] = static_cast<int>(i);
  }
  return out;
}

/// For example "forward: 7 waits for 6", or "step: row 14 waits for phase 2".
[[nodiscard]] inline std::string to_string(wait_site const& site) {
  constexpr std::array words{"forward", "backward", "layer", "timetable", "step"};
  auto const name = [&](int number) {
    if (site.where != wait_site::part::step) return std::to_string(number);
    return number < 0 ? "phase " + std::to_string(-1 - number) : "row " + std::to_string(number);
  };
  return std::string(words[static_cast<std::size_t>(site.where)]) + ": " + name(site.waiting) +
         " waits for " + name(site.awaited);
}

}  // namespace plait
