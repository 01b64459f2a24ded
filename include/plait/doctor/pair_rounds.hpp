// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::detail::doctor {

/// Pairs of ranks that are measured at the same time. No rank is in two pairs, and the lower rank
/// of a pair is its first.
using pair_round = std::vector<std::pair<int, int>>;

/// The largest number of ranks of a job of which all pairs are measured.
inline constexpr int most_ranks_of_all_pairs = 64;

/// Returns rounds in which each pair of `ranks` meets once: a tournament. n ranks need n - 1 rounds
/// if n is even, else n.
///
/// Example: the ranks 0, 1, 2, 3 need the rounds (0,3) (1,2); (0,2) (1,3); (0,1) (2,3), in this or
///          another order.
[[nodiscard]] std::vector<pair_round> tournament(std::vector<int> const& ranks);

/// Returns rounds for the ranks of a job, in which each pair meets once. If the job has more than
/// most_ranks_of_all_pairs ranks, only two kinds of pairs meet: the pairs within each host, on all
/// hosts at the same time, and then the pairs of the first ranks of all hosts.
///
/// `hosts`: the name of each rank's host.
[[nodiscard]] std::vector<pair_round> rounds_of_job(std::vector<std::string> const& hosts);

/// Returns the pairs of all rounds, each as a round of its own.
[[nodiscard]] std::vector<pair_round> one_by_one(std::vector<pair_round> const& rounds);

/// Returns the other rank of a rank's pair in a round; -1 if the rank is in no pair.
[[nodiscard]] int partner_in(pair_round const& round, int rank);

}  // namespace plait::detail::doctor

#if PLAIT_HEADER_ONLY
#include "plait/doctor/pair_rounds.ipp"
#endif
