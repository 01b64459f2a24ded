// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plait/mesh/axis.hpp"
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

}  // namespace plait::planning
