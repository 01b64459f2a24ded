// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/core/clock.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/doctor/turns.hpp"

#include <thread>

namespace plait::detail::doctor {

/// Exchanges numbers and texts between all ranks of a job, through the job's own communicator and
/// the memory of its devices, so that it works with every backend. All ranks make the same calls in
/// the same order.
///
/// Errors: the errors of the communicator.
template <class Rank>
class rank_exchange {
 public:
  explicit rank_exchange(Rank& rank) : rank_(rank) {}

  [[nodiscard]] int ranks() const { return rank_.world_size(); }
  [[nodiscard]] int rank() const { return rank_.world_rank(); }

  /// Returns after all ranks have called it, and the device has ended all work.
  void meet() {
    rank_.device().synchronize();
    rank_.world().barrier();
    rank_.device().synchronize();
  }

  /// Returns the numbers of all ranks, in the order of the ranks; `own` has the same length on
  /// every rank.
  [[nodiscard]] std::vector<std::vector<double>> of_all(std::vector<double> const& own) {
    std::size_t const count = own.size(), all = count * std::size_t(ranks());
    std::vector<double> received(all);
    if (count > 0) {
      auto& device = rank_.device();
      if (room_.size() < (all + count) * sizeof(double))
        room_ = device.allocate((all + count) * sizeof(double));
      auto* const whole = reinterpret_cast<double*>(room_.data());
      auto* const part = whole + all;
      device.upload(own.data(), part, count * sizeof(double));
      device.synchronize();
      rank_.world().all_gather(std::span<double const>(part, count), std::span<double>(whole, all));
      device.synchronize();
      device.download(whole, received.data(), all * sizeof(double));
      device.synchronize();
    }
    std::vector<std::vector<double>> out;
    for (int i = 0; i < ranks(); ++i)
      out.emplace_back(received.begin() + std::ptrdiff_t(std::size_t(i) * count),
                       received.begin() + std::ptrdiff_t(std::size_t(i + 1) * count));
    return out;
  }
  /// Returns the number of each rank.
  [[nodiscard]] std::vector<double> of_all(double own) {
    std::vector<double> out;
    for (auto const& one : of_all(std::vector<double>{own})) out.push_back(one[0]);
    return out;
  }
  /// Returns the largest number of a rank, on every rank.
  [[nodiscard]] double largest(double own) {
    auto const all = of_all(own);
    return *std::max_element(all.begin(), all.end());
  }

  /// Returns the text of each rank; the lengths may differ.
  [[nodiscard]] std::vector<std::string> of_all(std::string_view own) {
    auto const lengths = of_all(static_cast<double>(own.size()));
    auto const longest =
        static_cast<std::size_t>(*std::max_element(lengths.begin(), lengths.end()));
    std::vector<double> packed((longest + sizeof(double) - 1) / sizeof(double));
    if (!own.empty()) std::memcpy(packed.data(), own.data(), own.size());
    std::vector<std::string> out;
    for (auto const& one : of_all(packed)) {
      std::string text(static_cast<std::size_t>(lengths[out.size()]), '\0');
      if (!text.empty()) std::memcpy(text.data(), one.data(), text.size());
      out.push_back(std::move(text));
    }
    return out;
  }
  /// Returns the text of rank 0 on every rank.
  [[nodiscard]] std::string of_root(std::string_view text) {
    return of_all(rank() == 0 ? text : std::string_view())[0];
  }

  /// Calls work() once on each rank, in `turns` turns: a rank calls it in turn `own`, together with
  /// all ranks of the same `own`. In the other turns the rank sleeps for `seconds`, about the time
  /// of a call, and only then waits for the turn's end: a rank that waits may poll, and would use a
  /// processor meanwhile.
  template <class Work>
  void in_turn(int own, int turns, double seconds, Work work) {
    for (int turn = 0; turn < turns; ++turn) {
      meet();
      if (turn == own) work();
      else std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    }
    meet();
  }

 private:
  Rank& rank_;
  typename Rank::device_type::arena room_{};
};

/// Returns the median of the seconds that turn(0), turn(1), up to turn(count - 1) return on this
/// rank. All ranks begin a turn at the same time. If the turns of one rank are not close, all ranks
/// have another turn, so they have equal numbers of turns.
///
/// All of turn(0) to turn(count - 1) are called once, then all are called again, and so on; see
/// seconds_of_works().
template <class Rank, class Turn>
std::vector<double> seconds_together(rank_exchange<Rank>& exchange, turn_limits const& limits,
                                     std::size_t count, Turn turn) {
  std::vector<std::vector<double>> turns(count);
  std::vector<double> goes_on(count, 1.0);
  double until = 1e300;
  for (int done = 0; std::find(goes_on.begin(), goes_on.end(), 1.0) != goes_on.end();) {
    for (std::size_t i = 0; i < count; ++i) {
      if (goes_on[i] == 0) continue;
      exchange.meet();
      turns[i].push_back(turn(i));
    }
    if (++done < limits.turns) continue;
    if (done == limits.turns) until = seconds_now() + limits.more_seconds;
    bool const may_repeat = done < limits.most_turns && seconds_now() < until;
    for (std::size_t i = 0; i < count; ++i)
      if (!may_repeat || are_close(turns[i])) goes_on[i] = 0;
    // All ranks have another turn if one of them needs it.
    auto const all = exchange.of_all(goes_on);
    for (auto const& one : all)
      for (std::size_t i = 0; i < count; ++i) goes_on[i] = std::max(goes_on[i], one[i]);
  }
  std::vector<double> out;
  for (auto& own : turns) out.push_back(median_of(std::move(own)));
  return out;
}

}  // namespace plait::detail::doctor
