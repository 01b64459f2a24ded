// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/doctor/pair_rounds.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "plait/mesh/hosts.hpp"

namespace plait::detail::doctor {

PLAIT_DECL std::vector<pair_round> tournament(std::vector<int> const& ranks) {
  // The circle method. The ranks sit on a circle of places, and opposite places meet. From round to
  // round, the rank at the first place stays, and all others move on by one place. If the number of
  // ranks is odd, one place is empty (-1), and the rank opposite to it pauses.
  if (ranks.size() < 2) return {};
  std::vector<int> places = ranks;
  if (places.size() % 2 == 1) places.push_back(-1);
  std::vector<pair_round> out;
  for (std::size_t round = 0; round + 1 < places.size(); ++round) {
    pair_round now;
    for (std::size_t i = 0; i < places.size() / 2; ++i) {
      int const a = places[i], b = places[places.size() - 1 - i];
      if (a >= 0 && b >= 0) now.emplace_back(std::min(a, b), std::max(a, b));
    }
    out.push_back(std::move(now));
    std::rotate(places.begin() + 1, places.end() - 1, places.end());
  }
  return out;
}

PLAIT_DECL std::vector<pair_round> rounds_of_job(std::vector<std::string> const& hosts) {
  std::vector<int> all(hosts.size());
  std::iota(all.begin(), all.end(), 0);
  if (all.size() <= std::size_t(most_ranks_of_all_pairs)) return tournament(all);
  std::vector<pair_round> out;
  std::vector<int> firsts;
  for (auto const& name : host_map(hosts).names()) {
    std::vector<int> here;
    for (int const rank : all)
      if (hosts[std::size_t(rank)] == name) here.push_back(rank);
    firsts.push_back(here.front());
    auto const rounds = tournament(here);
    if (out.size() < rounds.size()) out.resize(rounds.size());
    for (std::size_t i = 0; i < rounds.size(); ++i)
      out[i].insert(out[i].end(), rounds[i].begin(), rounds[i].end());
  }
  for (auto& round : tournament(firsts)) out.push_back(std::move(round));
  return out;
}

PLAIT_DECL std::vector<pair_round> one_by_one(std::vector<pair_round> const& rounds) {
  std::vector<pair_round> out;
  for (auto const& round : rounds)
    for (auto const& pair : round) out.push_back({pair});
  return out;
}

PLAIT_DECL int partner_in(pair_round const& round, int rank) {
  for (auto const& [a, b] : round)
    if (a == rank || b == rank) return a == rank ? b : a;
  return -1;
}

}  // namespace plait::detail::doctor
