// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "plait/plan/exchanges.hpp"

namespace plait {

/// The list of a part of a job for the stage of a rank; `load` as `exchanges_of` takes it, but for
/// the number of ranks that is left to the launch, which the rank knows.
template <class Plan, class Rank>
[[gnu::cold]] std::vector<exchange> exchanges_on(Rank const& rank, workload load, job_part part) {
  load.data_ranks = Plan::grid.ranks_at_launch(rank.grid());
  return exchanges_of<Plan>(rank.stage(), load, part);
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
  /// `list`: as `exchanges_on` gives it.
  [[gnu::cold]] exchange_runner(Rank& rank, std::vector<exchange> const& list) : rank_(rank) {
    if (list.empty()) return;
    for (int place = 0; place < exchange_places; ++place) {
      first_[std::size_t(place)] = rows_.size();
      for (auto const& what : list)
        if (static_cast<int>(what.place) == place && rank.grid().size(what.row().over) > 1)
          rows_.push_back(what);
    }
    first_.back() = rows_.size();
  }

  /// The rows of a place that are to be carried out.
  [[nodiscard]] std::span<exchange const> at(exchange_place place) const {
    auto const begin = first_[std::size_t(place)];
    return {rows_.data() + begin, first_[std::size_t(place) + 1] - begin};
  }
  /// True if there is anything to carry out at `place`.
  [[nodiscard]] bool has(exchange_place place) const { return !at(place).empty(); }

  /// Carries out a sum, in place; `data` is where its offset counts from.
  template <class T>
  void run_sum(exchange const& now, T* data) const {
    group_of(now).all_reduce(block_of(now, data));
  }
  /// Carries out a row that moves the blocks of an arena, in place: it sums up all, or leaves the
  /// sum of its block to each rank, or gathers the blocks.
  template <class T>
  void run_blocks(exchange const& now, T* data) const {
    auto& group = group_of(now);
    std::span<T> const all = block_of(now, data);
    auto const ranks = static_cast<std::size_t>(group.size());
    auto const mine = all.subspan(static_cast<std::size_t>(group.rank()) * (all.size() / ranks),
                                  all.size() / ranks);
    switch (now.row().moves) {
      case movement::reduce_scatter: group.reduce_scatter(all, mine); break;
      case movement::all_gather: group.all_gather(mine, all); break;
      default: group.all_reduce(all);
    }
  }

  /// Carries out this rank's end of the messages of `place` that go that way.
  template <class T>
  void run_sends(exchange_place place, T* data, int tag) const {
    for (exchange const& now : at(place))
      if (is_message(now) && now.is_sent_by(rank_.stage()))
        group_of(now).send(std::span<T>(data, now.count), now.to.stage(), tag);
  }
  template <class T>
  void run_receives(exchange_place place, T* data, int tag) const {
    for (exchange const& now : at(place))
      if (is_message(now) && !now.is_sent_by(rank_.stage()))
        group_of(now).receive(std::span<T>(data, now.count), now.from.stage(), tag);
  }

  /// Carries out the broadcasts of `place`, from the stage that has the value.
  template <class T>
  void run_broadcasts(exchange_place place, T* data) const {
    for (exchange const& now : at(place))
      if (now.row().moves == movement::broadcast)
        group_of(now).broadcast(std::span<T>(data, now.count), now.from.stage());
  }

 private:
  static bool is_message(exchange const& what) { return what.row().moves == movement::send; }
  [[nodiscard]] auto& group_of(exchange const& what) const { return rank_.group(what.row().over); }

  /// The value of a row as this rank's group has it: all of it, or the block that axes which the
  /// row does not move have left to the group.
  template <class T>
  [[nodiscard]] std::span<T> block_of(exchange const& now, T* data) const {
    axis_set cut;
    for (axis const which : all_axes)
      if (now.from.at(which) == shard<dim::elements> && !now.row().over.contains(which))
        cut = cut | which;
    auto const block = rank_.grid().place_in_group(rank_.place(), cut);
    return {data + now.offset + static_cast<std::size_t>(block) * now.count, now.count};
  }

  Rank& rank_;
  std::vector<exchange> rows_;
  std::array<std::size_t, std::size_t(exchange_places) + 1> first_{};
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

}  // namespace plait
