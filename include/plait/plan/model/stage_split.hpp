// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <compare>
#include <vector>

#include "plait/core/lean_vector.hpp"
#include "plait/plan/model/program.hpp"
#include "plait/plan/model/units.hpp"
#include "plait/policy/policies.hpp"
#include "plait/schedule/lowering.hpp"
#include "plait/schedule/operation.hpp"

namespace plait::planning {

/// Returns the number of copies of an item that a stage with these chunks runs.
constexpr int count_copies(item const& piece, static_view<unit_range> chunks) {
  int count = 0;
  for (auto const& units : chunks) count += overlap(piece.units(), units).count();
  return count;
}

/// Returns the number of the value that is the input of pipeline unit `unit` (> 0).
constexpr int value_before(static_view<item> items, int unit) {
  return items[item_of(items, unit - 1)].out;
}

/// Returns the first unit of each stage, such that the greatest cost of a stage is as small as
/// possible. Dynamic programming over the number of stages and of units finds the cut. Among
/// equally good cuts, the function prefers the cut with less work on the earlier stages, because
/// these hold more microbatches. Example: costs 1, 1, 1, 3 on two stages give {0, 3}: both stages
/// cost 3.
constexpr std::vector<int> balance(std::vector<double> const& costs, int stages) {
  auto const units = static_cast<int>(costs.size());
  auto const at = [](int i) { return static_cast<std::size_t>(i); };
  std::vector<double> sums(costs.size() + 1, 0.0);
  for (int i = 0; i < units; ++i) sums[at(i + 1)] = sums[at(i)] + costs[at(i)];
  // equal[i]: the least number of first units that together cost as much as the first i units. It
  // is less than i if the last of these i units cost nothing.
  std::vector<int> equal(costs.size() + 1, 0);
  for (int i = 1; i <= units; ++i)
    equal[at(i)] = sums[at(i)] == sums[at(i - 1)] ? equal[at(i - 1)] : i;
  // best[s][u]: the cost of the greatest stage when the first u units make s stages. from[s][u]:
  // the first unit of the last of these stages. Among equally good cuts, the earlier stages get
  // less work, because they hold more microbatches.
  std::vector<std::vector<double>> best(at(stages + 1), std::vector<double>(at(units + 1), 1e300));
  std::vector<std::vector<int>> from(at(stages + 1), std::vector<int>(at(units + 1), 0));
  best[0][0] = 0;
  for (int s = 1; s <= stages; ++s) {
    // The later the last stage begins, the less it costs and the more the earlier stages cost. The
    // best beginning is at the point where the two costs meet, and this point never moves back as u
    // grows.
    auto const& before = best[at(s - 1)];
    int meet = s - 1;
    for (int u = s; u <= units; ++u) {
      auto const rest = [&](int begin) { return sums[at(u)] - sums[at(begin)]; };
      while (meet + 1 < u && before[at(meet)] < rest(meet)) ++meet;
      int begin = meet;
      double greatest = std::max(before[at(meet)], rest(meet));
      while (begin > s - 1 && rest(begin - 1) <= greatest) {
        greatest = rest(begin - 1);
        begin = std::max(s - 1, equal[at(begin - 1)]);
      }
      best[at(s)][at(u)] = greatest, from[at(s)][at(u)] = begin;
    }
  }
  std::vector<int> begins(at(stages), 0);
  for (int s = stages, u = units; s > 0; --s) begins[at(s - 1)] = u = from[at(s)][at(u)];
  return begins;
}

/// The cost of a cut into chunks: the greatest cost of a stage, then the cost of the greatest
/// chunk, then the sum of the squares of the stages' costs, which is smallest for equal stages.
/// Cuts are compared field by field in this order.
struct cut_cost {
  double stage = 0, chunk = 0, squares = 0;
  friend constexpr auto operator<=>(cut_cost const&, cut_cost const&) = default;
};

/// Improves a cut in which each stage has several chunks. `balance` makes chunks of similar cost,
/// but a stage's chunks may all be a little too large. So this function moves runs of neighbouring
/// cuts by one unit, each time the run that helps most, until no move helps.
///
/// Cost: steps * (stages * chunks)^3.
constexpr std::vector<int> balance_stages(std::vector<double> const& costs, std::vector<int> begins,
                                          int stages, chunk_placement placement) {
  auto const at = [](int i) { return static_cast<std::size_t>(i); };
  auto const units = static_cast<int>(costs.size()), chunks = static_cast<int>(begins.size());
  std::vector<double> sums(costs.size() + 1, 0.0);
  for (int i = 0; i < units; ++i) sums[at(i + 1)] = sums[at(i)] + costs[at(i)];
  std::vector<double> of_stage(at(stages), 0.0);
  auto const cost_of = [&](std::vector<int> const& cut) {
    cut_cost out;
    for (auto& one : of_stage) one = 0;
    for (int i = 0; i < chunks; ++i) {
      int const end = i + 1 == chunks ? units : cut[at(i + 1)];
      double const here = sums[at(end)] - sums[at(cut[at(i)])];
      of_stage[at(place_of_chunk(i, stages, placement).stage)] += here;
      out.chunk = std::max(out.chunk, here);
    }
    for (double const one : of_stage) {
      out.stage = std::max(out.stage, one);
      out.squares += one * one;
    }
    return out;
  };
  auto const is_cut = [&](std::vector<int> const& cut) {
    for (int i = 1; i < chunks; ++i)
      if (cut[at(i)] <= cut[at(i - 1)]) return false;
    return cut[at(chunks - 1)] < units;
  };
  auto cost = cost_of(begins);
  for (bool helps = true; helps;) {
    helps = false;
    auto best = begins;
    for (int first = 1; first < chunks; ++first)
      for (int last = first; last < chunks; ++last)
        for (int const step : {-1, 1}) {
          auto cut = begins;
          for (int i = first; i <= last; ++i) cut[at(i)] += step;
          if (!is_cut(cut)) continue;
          if (auto const here = cost_of(cut); here < cost) cost = here, best = cut, helps = true;
        }
    begins = best;
  }
  return begins;
}

template <class Cuts>
struct read_cuts;

template <>
struct read_cuts<balanced> {
  template <int Leaves>
  static constexpr std::vector<int> begins(program<Leaves> const& code, int stages,
                                           pipeline_shape const& shape) {
    std::vector<double> costs;
    for (auto const& piece : code.items)
      for (int i = 0; i < piece.count; ++i) costs.push_back(piece.flops_per_row);
    auto const chunks = balance(costs, stages * shape.chunks);
    if (shape.chunks == 1) return chunks;
    return balance_stages(costs, chunks, stages, shape.placement);
  }
};

template <int... Units>
struct read_cuts<cut_at<Units...>> {
  template <int Leaves>
  static constexpr std::vector<int> begins(program<Leaves> const&, int, pipeline_shape const&) {
    return {0, Units...};
  }
};

/// Returns the units of each chunk, in the order of the layers; a stage has one chunk or several.
/// The result is empty if `Cuts` does not make that many chunks in ascending order, or if the model
/// has fewer units than chunks.
template <class Cuts, int Leaves>
constexpr lean_vector<unit_range> split_stages(program<Leaves> const& code, int stages,
                                               pipeline_shape const& shape) {
  int const chunks = stages * shape.chunks;
  if (chunks > code.unit_count()) return {};
  auto begins = read_cuts<Cuts>::begins(code, stages, shape);
  lean_vector<unit_range> ranges;
  if (static_cast<int>(begins.size()) != chunks) return ranges;
  begins.push_back(code.unit_count());
  for (std::size_t s = 0; s + 1 < begins.size(); ++s) {
    if (begins[s] >= begins[s + 1]) return {};
    ranges.push_back({begins[s], begins[s + 1]});
  }
  return ranges;
}

}  // namespace plait::planning
