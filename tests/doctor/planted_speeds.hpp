// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <random>
#include <string>

#include "plait/doctor/measured_job.hpp"

// Measurements of jobs that no machine has, for tests of rules and pictures.
namespace planted {

inline constexpr double within_rate = 8e9, between_rate = 1.2e9;
inline constexpr double within_latency = 5e-6, between_latency = 40e-6;

// The healthy job of `ranks` ranks, on `hosts` hosts with equally many ranks. Its numbers have
// noise of up to `of_work` and `of_links` in both directions.
inline plait::ext::measured_job speeds(std::size_t ranks, std::size_t hosts, double of_work = 0,
                                       double of_links = 0, unsigned seed = 1) {
  std::mt19937 random(seed);
  auto const noisy = [&](double value, double most) {
    return value * std::uniform_real_distribution<double>(1 - most, 1 + most)(random);
  };
  plait::ext::measured_job out;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    out.hosts.push_back(std::string(1, static_cast<char>('a' + rank * hosts / ranks)));
    out.cpus.push_back({rank % (ranks / hosts)});
    out.turns.push_back({.median_seconds = noisy(2e-3, of_work),
                         .longest_seconds = noisy(2.4e-3, of_work),
                         .lost = noisy(0.02, of_work)});
  }
  for (auto const* const name : {"products of float", "the optimizer", "copies"}) {
    plait::ext::measured_work work{.name = name};
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      work.together.push_back(noisy(6e10, of_work));
      work.alone.push_back(noisy(6e10, of_work));
    }
    out.work.push_back(work);
  }
  auto& [latency, rate, latency_alone, rate_alone] = out.links;
  for (auto* const each : {&latency, &rate, &latency_alone, &rate_alone})
    each->assign(ranks, std::vector<double>(ranks));
  for (std::size_t a = 0; a < ranks; ++a)
    for (std::size_t b = 0; b < ranks; ++b) {
      if (a == b) continue;
      bool const is_within = out.hosts[a] == out.hosts[b];
      latency[a][b] = noisy(is_within ? within_latency : between_latency, of_links);
      rate[a][b] = noisy(is_within ? within_rate : between_rate, of_links);
    }
  return out;
}

// Makes the pairs (from, to) that `which` selects slower by `factor`: while all pairs send, and, if
// `alone` is true, while no other pair sends. Each of them was measured again.
inline void slow_down(plait::ext::measured_job& job, double factor, bool alone,
                      std::function<bool(std::size_t, std::size_t)> const& which) {
  auto& links = job.links;
  for (std::size_t a = 0; a < job.hosts.size(); ++a)
    for (std::size_t b = 0; b < job.hosts.size(); ++b) {
      if (a == b || !which(a, b)) continue;
      links.bytes_alone_per_second[a][b] = links.bytes_per_second[a][b] / (alone ? factor : 1);
      links.latency_alone_seconds[a][b] = links.latency_seconds[a][b];
      links.bytes_per_second[a][b] /= factor;
    }
}

}  // namespace planted
