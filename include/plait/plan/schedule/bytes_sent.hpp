// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "plait/core/lean_vector.hpp"
#include "plait/core/static_vector.hpp"
#include "plait/mesh/axis.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/placement/ranked_sum.hpp"
#include "plait/plan/model/workload.hpp"
#include "plait/plan/schedule/transfers.hpp"

namespace plait::planning {

/// The bytes of one element, for each type of element in a plan's transfers.
struct element_sizes {
  std::array<std::size_t, 7> bytes{};  ///< bytes of an element, in the order of transfer_element

  [[nodiscard]] constexpr std::size_t of(transfer_element element) const {
    return bytes[static_cast<std::size_t>(element)];
  }
};

template <class Plan>
inline constexpr element_sizes sizes_of{{Plan::element_bytes, Plan::slot_bytes,
                                         Plan::gradient_bytes, Plan::parameter_bytes,
                                         sizeof(double), sizeof(std::uint64_t), sizeof(wire_word)}};

/// Returns the bytes that a rank of `stage` sends in the transfers of a list, within its group
/// along the axes `over`, which has `ranks` ranks. A message between stages counts for the rank
/// that sends it.
constexpr traffic_need bytes_sent_by_list(lean_vector<transfer> const& list,
                                          element_sizes const& sizes, axis_set over, int ranks,
                                          int stage) {
  traffic_need out;
  for (auto const& made : list) {
    auto const row = made.row();
    if (row.over != over || !made.is_sent_by(stage)) continue;
    auto const value = static_cast<std::int64_t>(made.count * sizes.of(made.element));
    auto const bytes = made.times * row_bytes(row.moves, value, ranks);
    switch (made.place) {
      case transfer_place::forward:
      case transfer_place::activation_edge: out.forward += bytes; break;
      case transfer_place::recompute:
      case transfer_place::backward:
      case transfer_place::gradient_edge: out.backward += bytes; break;
      case transfer_place::consistency:
      case transfer_place::labels:
      case transfer_place::gather_parameters:
      case transfer_place::parameters:
      case transfer_place::microbatch_gradients:
      case transfer_place::slices:
      case transfer_place::ties:
      case transfer_place::gradients:
      case transfer_place::loss:
      case transfer_place::norm_partials:
      case transfer_place::measures:
      case transfer_place::output:
      case transfer_place::rank_outputs:
      case transfer_place::outputs:
      case transfer_place::blocks:
      case transfer_place::parameter:
      case transfer_place::state:
      case transfer_place::replica_numbers:
      case transfer_place::differences: out.step += bytes; break;
    }
  }
  return out;
}

/// The groups of ranks along a set of axes, and the most bytes that one of these ranks sends in a
/// step.
struct group_traffic {
  axis_set over{};
  int ranks = 1;
  traffic_need sent{};
};

/// Returns all groups that send anything. `lists` has the transfers of each stage. Two sets of axes
/// that differ only in axes of one rank have equal groups; they are listed once, without these
/// axes.
[[nodiscard]] [[gnu::cold]] constexpr static_vector<group_traffic, axis_set_count> traffic_of(
    lean_vector<lean_vector<transfer>> const& lists, element_sizes const& sizes, mesh const& grid) {
  static_vector<group_traffic, axis_set_count> out;
  for (unsigned bits = 1; bits < axis_set_count; ++bits) {
    group_traffic now;
    now.over.bits = bits;
    now.ranks = grid.size(now.over);
    if (grid.of_several_ranks(now.over) != now.over) continue;
    for (std::size_t stage = 0; stage < lists.size(); ++stage) {
      traffic_need here;
      for (axis_set same = now.over; same.bits < axis_set_count; ++same.bits) {
        if (grid.of_several_ranks(same) != now.over) continue;
        auto const more = bytes_sent_by_list(lists[stage], sizes, same, now.ranks, int(stage));
        here = {here.forward + more.forward, here.backward + more.backward, here.step + more.step};
      }
      now.sent = {std::max(now.sent.forward, here.forward),
                  std::max(now.sent.backward, here.backward), std::max(now.sent.step, here.step)};
    }
    if (now.sent.total() > 0) out.push_back(now);
  }
  return out;
}

/// Returns bytes_sent_by_list for the transfers of a part of a plan, such as one training step.
template <class Plan>
constexpr traffic_need bytes_sent_by_stage(axis_set over, int stage, workload const& load,
                                           timetable const& table, job_part part) {
  return bytes_sent_by_list(transfers_of<Plan>(stage, Plan::completed(load), part, false, table),
                            sizes_of<Plan>, over, Plan::grid_for(load).size(over), stage);
}

/// The sizes of the staging buffers in which ranks add up blocks that they transfer. Each group has
/// one buffer, which is as long as its greatest sum needs.
struct rooms_of_sums {
  /// For each set of axes, the bytes of its buffer.
  std::array<std::size_t, axis_set_count> bytes{};

  /// Makes the buffers at least as large as the sums in a list of transfers need.
  constexpr void add(lean_vector<transfer> const& list, element_sizes const& sizes,
                     mesh const& grid) {
    for (auto const& made : list) {
      auto const row = made.row();
      auto const ranks = static_cast<std::size_t>(grid.size(row.over));
      if (ranks == 1 || (row.moves != collective::all_reduce && row.moves != all_reduce_max &&
                         row.moves != collective::reduce_scatter))
        continue;
      std::size_t const size = sizes.of(made.element);
      auto const sum = row.moves == collective::reduce_scatter
                           ? ranked_sum::of_shares(made.count / ranks, size, ranks)
                           : ranked_sum::of(made.count, size, ranks);
      auto& of_group = bytes[row.over.bits];
      of_group = std::max(of_group, size * sum.room);
    }
  }
};

/// Returns the bytes of all staging buffers for sums on a rank of `stage`.
template <class Plan>
constexpr std::size_t room_of_sums(int stage, workload const& load) {
  auto const grid = Plan::grid_for(load);
  rooms_of_sums rooms;
  for (int part = 0; part < job_parts; ++part)
    if (job_part(part) != job_part::prediction || load.prediction != predicted::nothing)
      rooms.add(transfers_of<Plan>(stage, load, job_part(part)), sizes_of<Plan>, grid);
  std::size_t sum = 0;
  for (auto const bytes : rooms.bytes) sum += bytes;
  return sum;
}

}  // namespace plait::planning
