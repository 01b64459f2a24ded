// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "plait/plan/exchanges.hpp"

namespace plait {

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
  /// `list`: as `exchanges_of` gives it for the rank's stage.
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

  /// True if there is anything to carry out at `place`.
  [[nodiscard]] bool has(exchange_place place) const { return !at(place).empty(); }

  /// Carries out the sums of `place`, in place; `data` is where their offsets count from.
  template <class T>
  void run_sums(exchange_place place, T* data) const {
    for (exchange const& now : at(place))
      group_of(now).all_reduce(std::span<T>(data + now.offset, now.count));
  }

  /// Carries out this rank's end of the messages of `place` that go that way.
  template <class T>
  void run_sends(exchange_place place, T* data, int tag) const {
    for (exchange const& now : at(place))
      if (is_message(now) && now.is_sent_by(stage()))
        group_of(now).send(std::span<T>(data, now.count), now.to.at(axis::stage).index, tag);
  }
  template <class T>
  void run_receives(exchange_place place, T* data, int tag) const {
    for (exchange const& now : at(place))
      if (is_message(now) && !now.is_sent_by(stage()))
        group_of(now).receive(std::span<T>(data, now.count), now.from.at(axis::stage).index, tag);
  }

  /// Carries out the broadcasts of `place`, from the stage that has the value.
  template <class T>
  void run_broadcasts(exchange_place place, T* data) const {
    for (exchange const& now : at(place))
      if (now.row().moves == movement::broadcast)
        group_of(now).broadcast(std::span<T>(data, now.count), now.from.at(axis::stage).index);
  }

 private:
  [[nodiscard]] int stage() const { return rank_.place().stage; }
  static bool is_message(exchange const& what) { return what.row().moves == movement::send; }
  [[nodiscard]] auto& group_of(exchange const& what) const { return rank_.group(what.row().over); }
  [[nodiscard]] std::span<exchange const> at(exchange_place place) const {
    auto const begin = first_[std::size_t(place)];
    return {rows_.data() + begin, first_[std::size_t(place) + 1] - begin};
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
