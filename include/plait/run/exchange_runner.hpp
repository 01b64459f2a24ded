// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "plait/plan/exchanges.hpp"

namespace plait::execution {

/// The list of a part of a job for the stage of a rank; `load` as `exchanges_of` takes it, but for
/// the number of ranks that is left to the launch, which the rank knows.
template <class Plan, class Rank>
[[gnu::cold]] std::vector<exchange> exchanges_on(Rank const& rank, workload load, job_part part) {
  load.data_ranks = Plan::grid.ranks_at_launch(rank.grid());
  return exchanges_of<Plan>(rank.stage(), load, part);
}
/// The same with the values that lie where they are wanted.
template <class Plan, class Rank>
[[gnu::cold]] std::vector<exchange> values_on(Rank const& rank, workload load, job_part part) {
  load.data_ranks = Plan::grid.ranks_at_launch(rank.grid());
  return values_of<Plan>(rank.stage(), load, part);
}

/// Carries out exchanges of a plan's list on one rank. Beside `move_value`, which does so for the
/// rows whose placements are types, it is the only caller of communicators: a trainer sends
/// nothing that is not in the list. `sum_over_world` below is for programs.
///
/// Cost:    the list is prepared once; a call allocates nothing. In a group of one rank nothing is
///          called.
/// Errors:  those of the communicator.
/// Threads: used by the one thread that runs the rank.
template <class Rank>
class exchange_runner {
 public:
  /// A row of the list as this rank carries it out.
  struct active_row {
    exchange what{};
    movement moves = movement::none;
    typename Rank::communicator_type* group = nullptr;
    std::size_t begin = 0;  ///< of what the group has, in the arena
    int root = 0;           ///< of a broadcast
    bool is_sent_here = true;
  };

  /// `list`: as `exchanges_on` gives it.
  [[gnu::cold]] exchange_runner(Rank& rank, std::vector<exchange> const& list) {
    if (list.empty()) return;
    for (int place = 0; place < exchange_places; ++place) {
      first_[std::size_t(place)] = static_cast<int>(rows_.size());
      for (auto const& what : list)
        if (static_cast<int>(what.place) == place) add(rank, what);
    }
    first_.back() = static_cast<int>(rows_.size());
  }

  /// The rows of a place that are to be carried out: those in groups of more than one rank.
  [[nodiscard]] static_view<active_row> at(exchange_place place) const {
    int const begin = first_[std::size_t(place)];
    return {rows_.data() + begin, first_[std::size_t(place) + 1] - begin};
  }

  /// Carries out a sum, in place; `data` is where its offset counts from.
  template <class T>
  void run_sum(active_row const& now, T* data) const {
    now.group->all_reduce(values_of(now, data));
  }
  /// Carries out a row that moves the blocks of an arena, in place: it sums up all, or leaves the
  /// sum of its block to each rank, or gathers the blocks.
  template <class T>
  void run_blocks(active_row const& now, T* data) const {
    auto& group = *now.group;
    std::span<T> const all = values_of(now, data);
    std::size_t const block = all.size() / static_cast<std::size_t>(group.size());
    auto const mine = all.subspan(static_cast<std::size_t>(group.rank()) * block, block);
    switch (now.moves) {
      case movement::reduce_scatter: group.reduce_scatter(all, mine); break;
      case movement::all_gather: group.all_gather(mine, all); break;
      default: group.all_reduce(all);
    }
  }

  /// Carries out a row of blocks that go from each rank to each other.
  template <class T>
  void run_all_to_all(active_row const& now, std::span<T const> sent, std::span<T> received) const {
    now.group->all_to_all(sent, received);
  }

  /// Carries out this rank's end of the messages of `place` that go that way.
  template <class T>
  void run_sends(exchange_place place, T* data, int tag) const {
    for (auto const& now : at(place))
      if (now.moves == movement::send && now.is_sent_here)
        now.group->send(std::span<T>(data, now.what.count), now.what.to.stage(), tag);
  }
  template <class T>
  void run_receives(exchange_place place, T* data, int tag) const {
    for (auto const& now : at(place))
      if (now.moves == movement::send && !now.is_sent_here)
        now.group->receive(std::span<T>(data, now.what.count), now.what.from.stage(), tag);
  }

  /// Carries out the broadcasts of `place`, from the stage that has the value.
  template <class T>
  void run_broadcasts(exchange_place place, T* data) const {
    for (auto const& now : at(place))
      if (now.moves == movement::broadcast) run_broadcast(now, data);
  }
  /// Carries out a broadcast, from the rank of the axis that has the value.
  template <class T>
  void run_broadcast(active_row const& now, T* data) const {
    now.group->broadcast(values_of(now, data), now.root);
  }

 private:
  [[gnu::cold]] void add(Rank& rank, exchange const& what) {
    auto const row = what.row();
    if (rank.grid().size(row.over) == 1) return;
    // Axes that the row does not move may have left one block of the arena to the group.
    axis_set cut;
    for (axis const which : all_axes)
      if (what.from.at(which) == shard<dim::elements> && !row.over.contains(which))
        cut = cut | which;
    auto const block = static_cast<std::size_t>(rank.grid().block_of(rank.place(), cut));
    int root = 0;
    for (axis const which : all_axes)
      if (row.over.contains(which)) root = what.from.at(which).index;
    rows_.push_back({what, row.moves, &rank.group(row.over), what.offset + block * what.count, root,
                     what.is_sent_by(rank.stage())});
  }
  template <class T>
  static std::span<T> values_of(active_row const& now, T* data) {
    return {data + now.begin, now.what.count};
  }

  std::vector<active_row> rows_;
  std::array<int, std::size_t(exchange_places) + 1> first_{};
};

/// Adds up numbers in host memory over all ranks of the job; for reports, not inside a step.
template <class Rank, class T>
[[gnu::cold]] void sum_over_world(Rank& rank, std::span<T> values) {
  auto& device = rank.device();
  auto const room = device.allocate(values.size_bytes());
  auto* const data = reinterpret_cast<T*>(room.data());
  device.upload(values.data(), data, values.size_bytes());
  device.synchronize();
  rank.world().all_reduce(std::span<T>(data, values.size()));
  device.synchronize();
  device.download(data, values.data(), values.size_bytes());
  device.synchronize();
}

}  // namespace plait::execution

namespace plait {

using execution::sum_over_world;

}  // namespace plait
