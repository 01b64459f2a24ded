// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::detail::doctor {

/// Pairs of ranks, the lower rank first, that are measured at the same time: no rank is in two.
using pair_round = std::vector<std::pair<int, int>>;

/// The largest number of ranks of which all pairs are measured.
inline constexpr int most_ranks_of_all_pairs = 64;

/// Returns rounds in which each pair of `ranks` meets once: a tournament. n ranks need n - 1 rounds
/// if n is even, else n.
///
/// Example: the ranks 0, 1, 2, 3 need the rounds (0,3) (1,2); (0,2) (1,3); (0,1) (2,3), in this or
///          another order.
[[nodiscard]] std::vector<pair_round> tournament(std::vector<int> const& ranks);

/// Returns the rounds for the ranks of a job, of which `hosts` has the names of the hosts: each
/// pair once. Above most_ranks_of_all_pairs ranks, the pairs of each host, and the pairs of the
/// first ranks of all hosts.
[[nodiscard]] std::vector<pair_round> rounds_of_job(std::vector<std::string> const& hosts);

/// Returns rounds of one pair each, with the pairs of `rounds`.
[[nodiscard]] std::vector<pair_round> one_by_one(std::vector<pair_round> const& rounds);

/// Returns the other rank of this rank's pair in a round; -1 if it is in none.
[[nodiscard]] int partner_in(pair_round const& round, int rank);

}  // namespace plait::detail::doctor

#if PLAIT_HEADER_ONLY
#include "plait/doctor/pair_rounds.ipp"
#endif
