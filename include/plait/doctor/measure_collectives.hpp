// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plait/core/namespaces.hpp"
#include "plait/doctor/doctor_progress.hpp"
#include "plait/doctor/machine.hpp"
#include "plait/doctor/rank_exchange.hpp"
#include "plait/doctor/turns.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/placement/collective.hpp"

namespace plait::detail::doctor {

/// The sizes of collectives: the bytes of the whole buffer, of which each rank has one block. A
/// block has at least one element, so that the smallest size for 4 ranks is 16 bytes.
inline constexpr std::size_t collective_bytes[]{4,          4 << 10, 64 << 10,
                                                1024 << 10, 8 << 20, 64 << 20};

/// Measures collectives of a group, while the other groups of the same kind do the same. The time
/// of a collective is the median over all ranks of each rank's median turn, so all ranks get equal
/// results.
///
/// Errors: the errors of device and communicator.
template <class Rank>
class collective_measurement {
  using communicator = typename Rank::communicator_type;

 public:
  static constexpr std::size_t most_bytes = collective_bytes[std::size(collective_bytes) - 1];

  collective_measurement(Rank& rank, rank_exchange<Rank>& exchange, communicator& group)
      : device_(rank.device()),
        exchange_(exchange),
        group_(group),
        ranks_(static_cast<std::size_t>(group.size())),
        memory_(device_.allocate(2 * room())),
        a_(reinterpret_cast<float*>(memory_.data()), room() / sizeof(float)),
        b_(reinterpret_cast<float*>(memory_.data() + room()), a_.size()) {
    device_.on(stream::compute).fill(0.0f, a_.data(), a_.size());
    device_.on(stream::compute).fill(0.0f, b_.data(), b_.size());
    device_.synchronize();
  }

  /// Measures each collective with ascending sizes, until a call takes longer than `most_seconds`;
  /// at least two sizes. Appends the times to `out`.
  void measure(ext::rank_group over, turn_limits const& limits, double most_seconds,
               doctor_progress& progress, std::vector<ext::machine::collective_times>& out) {
    progress.begin(over == ext::rank_group::world  ? "collectives of all ranks"
                   : over == ext::rank_group::host ? "collectives of the ranks of each host"
                                                   : "collectives of one rank of each host");
    std::vector<measured_call> all;
    for (auto const kind :
         {collective::all_reduce, collective::all_gather, collective::reduce_scatter,
          collective::all_to_all, collective::broadcast})
      add_calls(kind, limits, most_seconds, all);
    auto const seconds =
        exchange_.of_all(seconds_together(exchange_, limits, all.size(), [&](std::size_t i) {
          auto work = [&] { call(all[i].kind, all[i].each); };
          return seconds_of_turn(device_, all[i].count, work) / all[i].count;
        }));
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (out.empty() || out.back().over != over || out.back().kind != all[i].kind)
        out.push_back({.kind = all[i].kind, .over = over, .ranks = ranks_});
      std::vector<double> of_ranks;
      for (auto const& one : seconds) of_ranks.push_back(one[i]);
      out.back().times.push_back(
          {all[i].each * ranks_ * sizeof(float), median_of(std::move(of_ranks))});
    }
  }

 private:
  /// Returns the number of elements of each rank's block, so that all blocks together have about
  /// `bytes` bytes.
  [[nodiscard]] std::size_t elements_of_block(std::size_t bytes) const {
    return std::max<std::size_t>(1, bytes / sizeof(float) / ranks_);
  }
  /// Returns the bytes of the largest buffer, as whole pages.
  [[nodiscard]] std::size_t room() const {
    return (elements_of_block(most_bytes) * ranks_ * sizeof(float) + 4095) / 4096 * 4096;
  }

  void call(collective kind, std::size_t each) {
    std::size_t const all = each * ranks_;
    auto const whole = a_.first(all);
    switch (kind) {
      case collective::all_reduce: return group_.all_reduce(whole, ext::reduction::sum);
      case collective::all_gather:
        return group_.all_gather(std::span<float const>(b_.first(each)), whole);
      case collective::reduce_scatter:
        return group_.reduce_scatter(std::span<float const>(whole), b_.first(each));
      case collective::all_to_all:
        return group_.all_to_all(std::span<float const>(whole), b_.first(all));
      case collective::broadcast: return group_.broadcast(whole, 0);
      default: return;
    }
  }

  /// A collective with blocks of `each` elements, which a turn calls `count` times.
  struct measured_call {
    collective kind;
    std::size_t each;
    int count;
  };

  /// Adds calls of a kind of collective with ascending sizes, until a call takes longer than
  /// `most_seconds`; at least two sizes. All ranks add the same calls.
  void add_calls(collective kind, turn_limits const& limits, double most_seconds,
                 std::vector<measured_call>& all) {
    std::size_t sizes = 0, last = 0;
    for (std::size_t const bytes : collective_bytes) {
      std::size_t const each = elements_of_block(bytes);
      if (each == last) continue;
      last = each;
      auto work = [&] { call(kind, each); };
      exchange_.meet();
      (void)seconds_of_turn(device_, 1, work);
      double once = exchange_.largest(seconds_of_turn(device_, 1, work));
      if (once < limits.seconds) once = exchange_.largest(seconds_of_turn(device_, 3, work) / 3);
      int const count =
          std::clamp(static_cast<int>(limits.seconds / std::max(once, 1e-9)), 1, 1000);
      // The first short calls of a turn are slower, because threads have slept.
      all.push_back({kind, each, once < 1e-3 ? std::max(count, 50) : count});
      if (++sizes >= 2 && once > most_seconds) break;
    }
  }

  typename Rank::device_type& device_;
  rank_exchange<Rank>& exchange_;
  communicator& group_;
  std::size_t ranks_;
  typename Rank::device_type::arena memory_;
  std::span<float> a_, b_;
};

}  // namespace plait::detail::doctor
