// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "plait/mesh/axis.hpp"
#include "plait/placement/ranked_sum.hpp"
#include "plait/plan/exchanges.hpp"
#include "plait/plan/workload.hpp"

namespace plait::planning {

/// Bytes of one element of an exchange of a plan.
template <class Plan>
constexpr std::int64_t bytes_of(exchange_element element) {
  switch (element) {
    case exchange_element::compute: return std::int64_t{Plan::element_bytes};
    case exchange_element::slot: return std::int64_t{Plan::slot_bytes};
    case exchange_element::gradient: return std::int64_t{Plan::gradient_bytes};
    case exchange_element::parameter: return std::int64_t{Plan::parameter_bytes};
    case exchange_element::real:
    case exchange_element::bits: break;
  }
  return std::int64_t{sizeof(double)};
}

/// Bytes that a rank of `stage` moves over the group of the axes `over` in one training step of a
/// plan: the sum over `exchanges_of`, where messages count for the rank that sends them.
template <class Plan>
constexpr wire_need wire_of_stage(axis_set over, int stage, workload const& load) {
  wire_need out;
  auto const ranks = Plan::grid_for(load).size(over);
  for (auto const& made : exchanges_of<Plan>(stage, load, job_part::training)) {
    auto const row = made.row();
    if (row.over != over || !made.is_sent_by(stage)) continue;
    auto const value = static_cast<std::int64_t>(made.count) * bytes_of<Plan>(made.element);
    auto const bytes = made.times * row_bytes(row.moves, value, ranks);
    switch (made.place) {
      case exchange_place::forward:
      case exchange_place::activation_edge: out.forward += bytes; break;
      case exchange_place::backward:
      case exchange_place::gradient_edge: out.backward += bytes; break;
      default: out.step += bytes;
    }
  }
  return out;
}

/// Bytes of room in which a rank of `stage` adds up what its groups exchange; each group has room
/// for the greatest of its sums.
template <class Plan>
constexpr std::size_t room_of_sums(int stage, workload const& load) {
  auto const grid = Plan::grid_for(load);
  std::array<std::size_t, axis_set_count> room{};
  for (auto const part : {job_part::set_up, job_part::training, job_part::evaluation})
    for (auto const& made : exchanges_of<Plan>(stage, load, part)) {
      auto const row = made.row();
      auto const ranks = static_cast<std::size_t>(grid.size(row.over));
      if (ranks == 1 ||
          (row.moves != movement::all_reduce && row.moves != movement::all_reduce_max &&
           row.moves != movement::reduce_scatter))
        continue;
      auto const bytes = static_cast<std::size_t>(bytes_of<Plan>(made.element));
      auto& of_group = room[row.over.bits];
      auto const sum = row.moves == movement::reduce_scatter
                           ? ranked_sum::of_shares(made.count / ranks, bytes, ranks)
                           : ranked_sum::of(made.count, bytes, ranks);
      of_group = std::max(of_group, bytes * sum.room);
    }
  std::size_t sum = 0;
  for (auto const bytes : room) sum += bytes;
  return sum;
}

}  // namespace plait::planning
