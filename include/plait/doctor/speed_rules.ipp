// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/doctor/speed_rules.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "plait/core/concat.hpp"
#include "plait/core/number_range.hpp"
#include "plait/doctor/link_limits.hpp"
#include "plait/doctor/link_rules.hpp"
#include "plait/doctor/rule_parts.hpp"

namespace plait::detail::doctor {

/// A kind of work at which a rank is slow, and its share of the expected speed.
struct slow_work {
  ext::measured_work const* work = nullptr;
  double share = 1;
};

// Returns text such as "copies at 0.4 of the median of 8 ranks (the optimizer 0.6)".
PLAIT_DECL std::string work_text(std::vector<slow_work> of, std::string_view reference) {
  std::sort(of.begin(), of.end(), [](auto const& a, auto const& b) {
    return a.share != b.share ? a.share < b.share : a.work < b.work;
  });
  std::string out = concat({of[0].work->name, " at ", ratio_text(of[0].share), " of ", reference});
  for (std::size_t i = 1; i < of.size(); ++i)
    out += concat({i == 1 ? " (" : ", ", of[i].work->name, " ", ratio_text(of[i].share)});
  return out += of.size() > 1 ? ")" : "";
}

PLAIT_DECL void check_lists(ext::measured_job const& of) {
  auto const ranks = of.hosts.size();
  auto const check_numbers = [&](std::string const& name, std::vector<double> const& numbers) {
    require_size(name, numbers.size(), "elements", ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank)
      require_range(concat({"measured_job::", name, "[", rank, "]"}), numbers[rank],
                    number_ranges::finite_from_0);
  };
  if (!of.cpus.empty()) require_size("cpus", of.cpus.size(), "elements", ranks);
  for (std::size_t i = 0; i < of.work.size(); ++i) {
    auto const& [name, together, alone] = of.work[i];
    if (!together.empty()) check_numbers(concat({"work[", i, "].together"}), together);
    if (!alone.empty()) check_numbers(concat({"work[", i, "].alone"}), alone);
  }
  if (of.turns.empty()) return;
  require_size("turns", of.turns.size(), "elements", ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    auto const name = [&](char const* what) {
      return concat({"measured_job::turns[", rank, "].", what});
    };
    auto const& own = of.turns[rank];
    require_range(name("median_seconds"), own.median_seconds, number_ranges::finite_from_0);
    require_range(name("longest_seconds"), own.longest_seconds, number_ranges::finite_from_0);
    require_range(name("lost"), own.lost, number_ranges::from_0_to_1);
  }
}

PLAIT_DECL ext::finding about_rank(ext::measured_job const& of, std::size_t rank,
                                   std::string_view id) {
  return {.id = std::string(id),
          .severity = ext::finding_severity::slow,
          .ranks = {static_cast<int>(rank)},
          .host = of.hosts[rank]};
}

// Returns " on cpus 0-3", or "" if the processors of the rank are not known.
PLAIT_DECL std::string on_cpus(ext::measured_job const& of, std::size_t rank) {
  if (of.cpus.empty() || of.cpus[rank].empty()) return "";
  std::vector<int> cpus;
  for (auto const cpu : of.cpus[rank]) cpus.push_back(static_cast<int>(cpu));
  return concat({" on ", cpus_text(cpus)});
}

PLAIT_DECL std::vector<ext::finding> slow_ranks(ext::measured_job const& of) {
  auto const ranks = of.hosts.size();
  std::vector<std::vector<slow_work>> slow(ranks);
  std::size_t most = 0;
  for (auto const& work : of.work) {
    std::vector<double> measured;
    for (double const each : work.together)
      if (each > 0) measured.push_back(each);
    if (measured.size() < 2) continue;
    most = std::max(most, measured.size());
    double const median = faster_median(measured, true);
    for (std::size_t rank = 0; rank < ranks; ++rank)
      if (work.together[rank] > 0 && work.together[rank] < least_work_share * median)
        slow[rank].push_back({&work, work.together[rank] / median});
  }
  std::vector<ext::finding> out;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (slow[rank].empty()) continue;
    out.push_back(about_rank(of, rank, "slow-rank"));
    out.back().measured =
        concat({work_text(std::move(slow[rank]), concat({"the median of ", most, " ranks"})),
                on_cpus(of, rank)});
    out.back().expected = "at least 0.9";
    out.back().what_to_do = "look for other programs on its cpus, a lower clock, or a quota";
  }
  return out;
}

PLAIT_DECL std::vector<ext::finding> slow_together(ext::measured_job const& of) {
  struct host_work {
    std::string name{};
    std::vector<int> ranks{};
    std::vector<slow_work> slow{};
  };
  auto const ranks = of.hosts.size();
  std::vector<host_work> hosts;
  for (auto const& work : of.work) {
    if (work.together.empty() || work.alone.empty() || !work.name.starts_with("products")) continue;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (work.together[rank] <= 0 || work.alone[rank] <= 0) continue;
      double const share = work.together[rank] / work.alone[rank];
      if (share >= least_work_share) continue;
      auto host = std::find_if(hosts.begin(), hosts.end(),
                               [&](auto const& each) { return each.name == of.hosts[rank]; });
      if (host == hosts.end()) host = hosts.insert(host, {.name = of.hosts[rank]});
      host->ranks.push_back(static_cast<int>(rank));
      auto& slow = host->slow;
      if (slow.empty() || slow.back().work != &work) slow.push_back({&work, share});
      slow.back().share = std::min(slow.back().share, share);
    }
  }
  std::vector<ext::finding> out;
  for (auto& host : hosts) {
    std::sort(host.ranks.begin(), host.ranks.end());
    host.ranks.erase(std::unique(host.ranks.begin(), host.ranks.end()), host.ranks.end());
    out.push_back(
        {.id = "slow-together",
         .severity = ext::finding_severity::slow,
         .ranks = std::move(host.ranks),
         .host = host.name,
         .measured = work_text(std::move(host.slow), "the speed that the slowest rank has alone"),
         .expected = "at least 0.9",
         .what_to_do = "ranks of the host share memory, caches, cpus or power; bind each "
                       "rank to its own cpus, or use fewer ranks on this host"});
  }
  std::sort(out.begin(), out.end(), [](auto const& a, auto const& b) { return a.ranks < b.ranks; });
  return out;
}

PLAIT_DECL std::vector<ext::finding> unsteady(ext::measured_job const& of) {
  std::vector<ext::finding> out;
  for (std::size_t rank = 0; rank < of.turns.size(); ++rank) {
    auto const& [median, longest, lost] = of.turns[rank];
    if (median <= 0 || lost <= 0.1) continue;
    out.push_back(about_rank(of, rank, "unsteady"));
    out.back().measured =
        concat({"turns of equal work", on_cpus(of, rank), " take ", time_text(median),
                " in the median and up to ", time_text(longest), ", and ", percent_text(lost),
                " of the time is lost in longer turns"});
    out.back().expected = "at most 10 % lost";
    out.back().what_to_do = "look for other programs on its cpus, interrupts, or a changing clock";
  }
  return out;
}

// Takes over each number of `other` that is better, or that `best` does not have.
PLAIT_DECL void take_better(std::vector<double>& best, std::vector<double> const& other,
                            bool more_is_better) {
  if (best.empty()) best = other;
  for (std::size_t i = 0; i < std::min(best.size(), other.size()); ++i) {
    bool const is_better = more_is_better ? other[i] > best[i] : other[i] < best[i];
    if (other[i] > 0 && (best[i] <= 0 || is_better)) best[i] = other[i];
  }
}

PLAIT_DECL void take_better(ext::machine::link_matrix& best, ext::machine::link_matrix const& other,
                            bool more_is_better) {
  if (best.empty()) best = other;
  for (std::size_t i = 0; i < std::min(best.size(), other.size()); ++i)
    take_better(best[i], other[i], more_is_better);
}

}  // namespace plait::detail::doctor

namespace plait::ext {

PLAIT_DECL std::vector<finding> check_speeds(measured_job const& of) {
  detail::doctor::check_lists(of);
  auto out = detail::doctor::slow_ranks(of);
  detail::doctor::append(out, detail::doctor::slow_together(of));
  detail::doctor::append(out, detail::doctor::check_links(of));
  detail::doctor::append(out, detail::doctor::unsteady(of));
  return out;
}

PLAIT_DECL measured_job better_of(measured_job const& a, measured_job const& b) {
  using detail::doctor::take_better;
  auto out = a;
  for (auto const& work : b.work) {
    auto const same = std::find_if(out.work.begin(), out.work.end(),
                                   [&](auto const& each) { return each.name == work.name; });
    if (same == out.work.end()) {
      out.work.push_back(work);
      continue;
    }
    take_better(same->together, work.together, true);
    take_better(same->alone, work.alone, true);
  }
  take_better(out.links.latency_seconds, b.links.latency_seconds, false);
  take_better(out.links.bytes_per_second, b.links.bytes_per_second, true);
  take_better(out.links.latency_alone_seconds, b.links.latency_alone_seconds, false);
  take_better(out.links.bytes_alone_per_second, b.links.bytes_alone_per_second, true);
  if (out.turns.empty()) out.turns = b.turns;
  for (std::size_t i = 0; i < std::min(out.turns.size(), b.turns.size()); ++i)
    if (b.turns[i].lost < out.turns[i].lost) out.turns[i] = b.turns[i];
  if (out.use.empty()) out.use = b.use;
  for (std::size_t i = 0; i < std::min(out.use.size(), b.use.size()); ++i)
    if (b.use[i].others.is_known() &&
        (!out.use[i].others.is_known() || b.use[i].others.value() > out.use[i].others.value()))
      out.use[i] = b.use[i];
  return out;
}

PLAIT_DECL std::vector<std::pair<int, int>> outliers(measured_links const& links,
                                                     std::vector<std::string> const& hosts) {
  detail::doctor::link_limits const limits(links, hosts);
  std::vector<std::pair<int, int>> out;
  for (std::size_t from = 0; from < hosts.size(); ++from)
    for (std::size_t to = 0; to < hosts.size(); ++to)
      if (from != to &&
          (limits.bandwidths().is_slow(from, to) || limits.latencies().is_slow(from, to)))
        out.emplace_back(static_cast<int>(from), static_cast<int>(to));
  return out;
}

}  // namespace plait::ext
