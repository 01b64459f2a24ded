// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/doctor/finding.hpp"
#include "plait/doctor/measured_job.hpp"

namespace plait::ext {

/// Compares the measured speeds of a job's ranks and links, and returns findings about the slow
/// ones. All findings have the severity `slow`. An empty list, and a number that is 0, was not
/// measured and gives no finding.
///
/// - `slow-rank`: a rank below 0.9 of the median of all ranks at a kind of work, while all ranks
///   work. If there are two middle values, the median is the faster one, so that a slow rank of two
///   is found. A rank has one finding, which begins with its slowest kind of work.
/// - `slow-together`: ranks whose speed in products, while all ranks work, is below 0.9 of their
///   speed alone. A host has one finding. Only products are compared: the memory limits most other
///   kinds of work, which are therefore slower together on most machines.
/// - `slow-pair`: two ranks whose bandwidth is below 0.8 of the median, or whose latency is above
///   1 / 0.8 of the median and at least 10 us longer. Links within hosts have one median, and links
///   between hosts have another; see detail::doctor::link_numbers. If the pair was measured again
///   while no other pair sent, it must be slow then, too. Both directions together have one
///   finding. If all pairs of a rank within its host, or all its pairs with other hosts, are slow,
///   the rank has one finding for all of them.
/// - `slow-host`: all pairs between two hosts, all pairs of a host and every other host, or all
///   pairs within one of several hosts are slow, at least two pairs. It replaces `slow-pair`.
/// - `shared-link`: pairs that are slow while all pairs send and are not slow while no other pair
///   sends. Pairs of a host, of two hosts, or of a rank have one finding, as above. It says how
///   many ranks share the link: within a host, all ranks of these pairs; between hosts, the ranks
///   of these pairs on the host that has fewer of them, because each rank is in one pair at a time.
/// - `unsteady`: a rank that loses more than 10 % of the time in turns that take longer than the
///   median.
///
/// Example (tests/doctor/speed_rules_test.cpp speeds):
///     plait::ext::measured_job job;
///     job.hosts = {"a", "a", "b", "b"};
///     job.work.push_back({.name = "products of float", .together = {61e9, 60e9, 38e9, 62e9}});
///     auto const found = plait::ext::check_speeds(job);
///     // rank 2 (host b): products of float at 0.62 of the median of 4 ranks; expected: at least
///     // 0.9; look for other programs on its cpus, a lower clock, or a quota
///     std::string const sentence = found[0].text();
///
/// Cost:    about as many steps as there are pairs of ranks.
/// Errors:  input_error if a list does not have an element for each rank, or if a number is
///          negative or not finite; std::bad_alloc.
/// Threads: any.
[[nodiscard]] [[gnu::cold]] std::vector<finding> check_speeds(measured_job const& of);

/// Returns, for each rank and each pair, the better number of two measurements of a job. A rank or
/// a link that is slow in the result was slow in both measurements. A short disturbance is in only
/// one of them, so it is not in the result.
///
/// `a`, `b`: measurements of the same ranks. If only one of them has a number, the result has this
/// number. The better turns of a rank are the turns that lost less time. Only the use of processors
/// by others is the greater one, because it says how far the measurements can be trusted.
///
/// Errors:  std::bad_alloc.
/// Threads: any.
[[nodiscard]] [[gnu::cold]] measured_job better_of(measured_job const& a, measured_job const& b);

/// Returns the pairs (sender, receiver) of ranks that were slow while all pairs sent, in ascending
/// order. check_speeds() can tell slow pairs from pairs that share a link if they are measured
/// again while no other pair sends. `hosts` has the host of each rank.
///
/// Cost:    about as many steps as there are pairs of ranks.
/// Errors:  as for check_speeds().
/// Threads: any.
[[nodiscard]] [[gnu::cold]] std::vector<std::pair<int, int>> outliers(
    measured_links const& links, std::vector<std::string> const& hosts);

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/doctor/speed_rules.ipp"
#endif
