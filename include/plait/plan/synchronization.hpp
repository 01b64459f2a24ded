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
/// Cost:   O(operations^2) in the worst case.
/// Source: vector clocks; Mattern, "Virtual time and global states of distributed systems", 1989.
[[nodiscard]] constexpr std::vector<planned_wait> plan_waits(
    std::vector<stream_operation> const& operations) {
  using clock = std::array<int, std::size_t(stream_count)>;  // the last known operation of each
  auto const at = [](stream on) { return static_cast<std::size_t>(on); };
  std::vector<clock> known(operations.size(), clock{});
  clock last{-1, -1, -1, -1};
  std::vector<planned_wait> out;
  auto const touches = [](std::vector<int> const& some, std::vector<int> const& others) {
    return std::any_of(some.begin(), some.end(), [&](int buffer) {
      return std::find(others.begin(), others.end(), buffer) != others.end();
    });
  };
  for (std::size_t i = 0; i < operations.size(); ++i) {
    auto const& now = operations[i];
    clock mine{-1, -1, -1, -1};
    if (int const before = last[at(now.on)]; before >= 0) mine = known[std::size_t(before)];
    // From the latest on: what it has seen itself needs no wait of its own.
    for (std::size_t j = i; j-- > 0;) {
      auto const& earlier = operations[j];
      if (mine[at(earlier.on)] >= static_cast<int>(j)) continue;
      if (earlier.on == now.on) continue;
      if (!touches(now.reads, earlier.writes) && !touches(now.writes, earlier.writes) &&
          !touches(now.writes, earlier.reads))
        continue;
      out.push_back({static_cast<int>(i), static_cast<int>(j)});
      for (std::size_t s = 0; s < mine.size(); ++s) mine[s] = std::max(mine[s], known[j][s]);
    }
    mine[at(now.on)] = static_cast<int>(i);
    known[i] = mine;
    last[at(now.on)] = static_cast<int>(i);
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
