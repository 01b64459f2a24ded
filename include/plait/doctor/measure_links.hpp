// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <thread>

#include "plait/backend/communicator.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/doctor/measured_job.hpp"
#include "plait/doctor/pair_rounds.hpp"
#include "plait/doctor/rank_exchange.hpp"
#include "plait/doctor/turns.hpp"
#include "plait/mesh/stream.hpp"

namespace plait::detail::doctor {

/// True if the communicator of a rank has messages between two ranks. The links of a communicator
/// that has collectives only cannot be measured.
template <class Rank>
inline constexpr bool has_messages = ext::can_send_receive<typename Rank::communicator_type, float>;

/// Measures the links between pairs of ranks, by messages between the two ranks of each pair. All
/// ranks get equal results.
///
/// Two ranks have no common clock, so each rank measures by its own clock how long a message and
/// its answer take. The latency is half of this time for messages of 4 bytes; the two ranks of a
/// pair measure nearly the same latency. The bandwidth in one direction is measured by the sender
/// of a message of 16 MiB, whose answer has 4 bytes. The time of the message is the time until the
/// answer arrives, minus the latency of the answer. For example, if the answer arrives after 4.01
/// ms and the latency is 10 us, the message took 4 ms, and the bandwidth is 4.2 GB/s.
///
/// Errors: the errors of device and communicator.
template <class Rank>
class link_measurement {
 public:
  static constexpr std::size_t message_bytes = std::size_t{16} << 20;

  link_measurement(Rank& rank, rank_exchange<Rank>& exchange)
      : rank_(rank),
        exchange_(exchange),
        memory_(rank.device().allocate(2 * message_bytes)),
        large_(reinterpret_cast<float*>(memory_.data()), message_bytes / sizeof(float)),
        other_(reinterpret_cast<float*>(memory_.data() + message_bytes), large_.size()) {
    rank.device().on(stream::compute).fill(1.0f, large_.data(), large_.size());
    rank.device().on(stream::compute).fill(1.0f, other_.data(), other_.size());
    rank.device().synchronize();
  }

  /// Measures the pairs of all rounds, round by round, in several passes through all rounds. Writes
  /// the medians over the passes into the matrices; the numbers of pairs in no round remain.
  void measure(std::vector<pair_round> const& rounds, ext::machine::link_matrix& latencies,
               ext::machine::link_matrix& bandwidths) {
    auto const ranks = static_cast<std::size_t>(exchange_.ranks());
    latencies.resize(ranks, std::vector<double>(ranks));
    bandwidths.resize(ranks, std::vector<double>(ranks));
    std::vector<pair_times> pairs(ranks);
    for (int pass = 0; pass < passes; ++pass) {
      auto const begin = seconds_now();
      for (auto const& round : rounds) {
        exchange_.meet();
        if (int const partner = partner_in(round, exchange_.rank()); partner >= 0)
          measure_pair(partner, pairs[static_cast<std::size_t>(partner)]);
      }
      // A pass takes at least 0.03 s, so that a disturbance of a tenth of a second slows down fewer
      // than half of the passes.
      double const left = 0.03 - (seconds_now() - begin);
      if (left > 0) std::this_thread::sleep_for(std::chrono::duration<double>(left));
    }
    std::vector<double> own;  // latency to each rank, then bandwidth to each rank
    for (auto const& one : pairs) own.push_back(median_of(one.latencies));
    for (auto const& one : pairs) {
      double const time = median_of(one.times), latency = median_of(one.latencies);
      own.push_back(time > 0 ? double(message_bytes) / std::max(time - latency, time / 100) : 0);
    }
    exchange_.meet();
    auto const all = exchange_.of_all(own);
    for (std::size_t from = 0; from < ranks; ++from)
      for (std::size_t to = 0; to < ranks; ++to) {
        if (all[from][to] > 0) latencies[from][to] = all[from][to];
        if (all[from][ranks + to] > 0) bandwidths[from][to] = all[from][ranks + to];
      }
  }

 private:
  static constexpr int passes = 7;

  /// The measurements of this rank and a partner.
  struct pair_times {
    int count = 0;  ///< the number of small messages in a pass; 0 before the first pass
    std::vector<double> latencies{};  ///< the latency in each pass
    std::vector<double> times{};      ///< the time of a large message to the partner in each pass
  };

  /// Measures the latency of a pair, and a large message in each direction, once. Both ranks of the
  /// pair call the function at the same time.
  void measure_pair(int partner, pair_times& of) {
    bool const first = exchange_.rank() < partner;
    if (of.count == 0) {
      // The rank with the lower number chooses the number of small messages in a pass, and sends it
      // to the other one.
      for (bool const sends : {first, !first})
        (void)seconds_of_messages(partner, sends, 1, large_.size());
      (void)seconds_of_messages(partner, first, 1, small_count);
      double const once = std::max(1e-7, seconds_of_messages(partner, first, 4, small_count) / 4);
      of.count = agree(partner, first, std::clamp(int(2e-3 / once), 1, 2000));
    }
    of.latencies.push_back(seconds_of_messages(partner, first, of.count, small_count) / of.count /
                           2);
    for (bool const sends : {first, !first}) {
      double const time = seconds_of_messages(partner, sends, 1, large_.size());
      if (sends) of.times.push_back(time);
    }
  }

  static constexpr std::size_t small_count = 1;

  /// Sends `count` messages of `elements` elements if `sends` is true, else receives them. An
  /// answer of one element follows each message. Returns the seconds until the last answer has
  /// arrived, or was sent.
  double seconds_of_messages(int partner, bool sends, int count, std::size_t elements) {
    auto& device = rank_.device();
    auto& world = rank_.world();
    constexpr int tag = 1;
    device.synchronize();
    double const begin = seconds_now();
    for (int i = 0; i < count; ++i) {
      if (sends) {
        world.send(std::span<float const>(large_.first(elements)), partner, tag);
        world.receive(other_.first(small_count), partner, tag);
      } else {
        world.receive(other_.first(elements), partner, tag);
        world.send(std::span<float const>(large_.first(small_count)), partner, tag);
      }
    }
    device.synchronize();
    return seconds_now() - begin;
  }

  /// Returns the number that the first rank of the pair gave, on both ranks.
  int agree(int partner, bool first, int number) {
    auto& device = rank_.device();
    float const own = static_cast<float>(number);
    float agreed = own;
    if (first) {
      device.upload(&own, other_.data(), sizeof own);
      device.synchronize();
      rank_.world().send(std::span<float const>(other_.first(1)), partner, 2);
    } else {
      rank_.world().receive(other_.first(1), partner, 2);
      device.synchronize();
      device.download(other_.data(), &agreed, sizeof agreed);
    }
    device.synchronize();
    return static_cast<int>(agreed);
  }

  Rank& rank_;
  rank_exchange<Rank>& exchange_;
  typename Rank::device_type::arena memory_;
  std::span<float> large_, other_;
};

}  // namespace plait::detail::doctor
