// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/plan/step_operations.hpp"
#include "plait/run/exchange_runner.hpp"
#include "plait/run/synchronizer.hpp"

namespace plait::execution {

/// Runs a step around its passes on one rank: what it computes, and the rows of the list between,
/// each with the waits that it needs. The calls come in the order of `step_operations_of`; a step
/// that an exception has ended is begun anew.
///
/// Cost:    prepared once; a call compares one integer and allocates nothing.
/// Errors:  error, before anything is done, if another operation is due than the one that is
///          called, with both names; those of the communicator.
/// Threads: used by the one thread that runs the rank.
template <class Rank>
class step_runner {
 public:
  [[gnu::cold]] step_runner(Rank& rank, std::vector<exchange> const& list, step_shape const& shape)
      : step_runner(rank, list, step_operations_of(list, rank.grid(), shape)) {}

  /// work(), which computes.
  template <class Work>
  void compute(step_phase which, Work const& work) {
    run(phase_[std::size_t(which)], work);
  }
  /// A phase in which nothing is computed: what comes next waits for what was before.
  void pass(step_phase which) {
    compute(which, [] {});
  }
  /// The sums of a place, in place; `data` is where their offsets count from.
  template <class T>
  void sum(exchange_place place, T* data) {
    each(place, [&](auto const& row) { exchanges_.run_sum(row, data); });
  }
  /// The rows of a place that bring the roots of slices to where `sums` adds them up, and what
  /// gathers the sums of an arena.
  template <class Sums, class T>
  void sum_slices(exchange_place place, Rank& rank, Sums const& sums, T* data) {
    each(place, [&](auto const& row) {
      if (row.moves == movement::all_to_all) sums.exchange(rank, row, exchanges_);
      else exchanges_.run_blocks(row, data);
    });
  }
  /// The rows of a place that move the blocks of an arena.
  template <class T>
  void move_blocks(exchange_place place, T* data) {
    each(place, [&](auto const& row) { exchanges_.run_blocks(row, data); });
  }

 private:
  [[gnu::cold]] step_runner(Rank& rank, std::vector<exchange> const& list,
                            step_operations const& all)
      : exchanges_(rank, list),
        waits_(rank.device(), wait_site::part::step, all.touched, all.numbers),
        names_(all.names) {
    phase_.fill(names_.size());  // of those that the step does not have
    for (std::size_t i = 0; i < all.numbers.size(); ++i) {
      int const number = all.numbers[i];
      if (number < 0) phase_[std::size_t(-1 - number)] = i;
      else if (auto& first = first_row_[std::size_t(list[std::size_t(number)].place)]; first == 0)
        first = i;
    }
  }

  template <class Run>
  void each(exchange_place place, Run run) {
    std::size_t index = first_row_[std::size_t(place)];
    for (auto const& row : exchanges_.at(place)) this->run(index++, [&] { run(row); });
  }

  /// Runs operation `index`, which must be due.
  template <class Work>
  void run(std::size_t index, Work const& work) {
    std::size_t const due = std::exchange(due_, 0);
    if (index != due) refuse(index, due);
    waits_.run(index, work);
    due_ = index + 1 < names_.size() ? index + 1 : 0;
  }
  [[noreturn]] [[gnu::cold]] void refuse(std::size_t index, std::size_t due) const {
    auto const text = [&](std::size_t one) {
      return "'" + std::string(names_[one]) + "' (operation " + std::to_string(one + 1) + " of " +
             std::to_string(names_.size()) + ")";
    };
    throw error("step_runner: " +
                (index < names_.size() ? text(index) : "a phase that the step does not have") +
                " is called where " + text(due) +
                " is due; make the calls in the order of step_operations_of");
  }

  exchange_runner<Rank> exchanges_;
  synchronizer<typename Rank::device_type> waits_;
  std::array<std::size_t, std::size_t(step_phases)> phase_{};
  std::array<std::size_t, std::size_t(exchange_places)> first_row_{};
  std::vector<char const*> names_;
  std::size_t due_ = 0;  // the operation that comes next
};

}  // namespace plait::execution
