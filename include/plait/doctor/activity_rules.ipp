// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/doctor/activity_rules.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"
#include "plait/doctor/link_limits.hpp"
#include "plait/doctor/rule_parts.hpp"

namespace plait::detail::doctor {

// The part of a rank's processors that others may use without a finding.
inline constexpr double most_use = 0.05;

// Returns the reason why the use of a rank's processors is unknown; "" if it is known.
PLAIT_DECL std::string problem_of_use(processor_use const& of) {
  if (!of.others.is_known()) return of.others.problem();
  if (of.cpus == 0) return "the rank has no processors";
  return std::isfinite(of.others.value()) ? "" : "it is not a finite number";
}

// `of`: a known use.
PLAIT_DECL bool is_busy(processor_use const& of) {
  return of.others.value() > most_use * static_cast<double>(of.cpus);
}

/// Ranks of a host that share processors, and these processors.
struct busy_ranks {
  std::vector<std::size_t> ranks{};
  std::vector<int> cpus{};
};

// Returns the processors of a rank together with `cpus`, ascending.
PLAIT_DECL std::vector<int> with_cpus_of(measured_job const& job, std::size_t rank,
                                         std::vector<int> cpus) {
  if (rank < job.cpus.size())
    for (auto const cpu : job.cpus[rank])
      if (cpu <= std::size_t{greatest_cpu}) cpus.push_back(static_cast<int>(cpu));
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

PLAIT_DECL std::string host_of(measured_job const& job, std::size_t rank) {
  return rank < job.hosts.size() ? job.hosts[rank] : std::string();
}

// Joins the busy ranks of a host that share processors: use_between() gives them the same use.
// Ranks that do not share processors may have the same use by chance. They are not joined, because
// together they have more processors than their use counts.
PLAIT_DECL std::vector<busy_ranks> sets_of_busy_ranks(measured_job const& job) {
  std::vector<busy_ranks> out;
  for (std::size_t rank = 0; rank < job.use.size(); ++rank) {
    auto const& use = job.use[rank];
    if (!problem_of_use(use).empty() || !is_busy(use)) continue;
    auto const same = std::find_if(out.begin(), out.end(), [&](busy_ranks const& each) {
      auto const first = each.ranks.front();
      return job.use[first] == use && host_of(job, first) == host_of(job, rank) &&
             with_cpus_of(job, rank, each.cpus).size() <= use.cpus;
    });
    if (same == out.end()) {
      out.push_back({{rank}, with_cpus_of(job, rank, {})});
    } else {
      same->ranks.push_back(rank);
      same->cpus = with_cpus_of(job, rank, std::move(same->cpus));
    }
  }
  return out;
}

PLAIT_DECL std::string number_text(double of) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", of);
  return text;
}

// Returns text about the kind of work in which one of the ranks is slowest, relative to the median
// of all ranks of the job; "" if all of them have at least 0.9 of the median.
PLAIT_DECL std::string slowest_work(measured_job const& job,
                                    std::vector<std::size_t> const& ranks) {
  double lowest = least_work_share;
  std::string out;
  for (auto const& work : job.work) {
    auto const is_speed = [](double each) { return std::isfinite(each) && each > 0; };
    std::vector<double> speeds;
    std::copy_if(work.together.begin(), work.together.end(), std::back_inserter(speeds), is_speed);
    if (speeds.size() < 2) continue;
    double const median = faster_median(speeds, true);
    for (auto const rank : ranks) {
      if (rank >= work.together.size() || !is_speed(work.together[rank])) continue;
      double const share = work.together[rank] / median;
      if (share >= lowest) continue;
      lowest = share;
      out = concat({escaped(work.name), ranks.size() == 1 ? "" : concat({" of rank ", rank}),
                    " at ", ratio_text(share), " of the median of ", speeds.size(), " ranks"});
    }
  }
  return out;
}

PLAIT_DECL finding busy_finding(measured_job const& job, busy_ranks const& of) {
  auto const& use = job.use[of.ranks.front()];
  finding out{.id = "busy-cpu", .severity = finding_severity::slow};
  for (auto const rank : of.ranks) out.ranks.push_back(static_cast<int>(rank));
  out.host = host_of(job, of.ranks.front());
  bool const is_named = !use.processes.empty();
  out.measured =
      concat({is_named ? "other processes use " : "other processes or virtual machines use ",
              number_text(use.others.value()), " of the ", use.cpus,
              use.cpus == 1 ? " processor" : " processors",
              of.ranks.size() == 1 ? " of the rank" : " of the ranks"});
  if (!of.cpus.empty()) out.measured += concat({" (", cpus_text(of.cpus), ")"});
  std::string_view between = ": ";
  for (auto const& each : use.processes) {
    // A process with several threads runs on several processors.
    auto const where =
        each.cpus > 1.1 ? std::string(" processors") : concat({" of cpu ", each.last_cpu});
    out.measured += concat({between, "process ", each.number, " ", in_quotes(each.name), " uses ",
                            number_text(each.cpus), where});
    between = ", ";
  }
  if (auto const work = slowest_work(job, of.ranks); !work.empty())
    out.measured += concat({"; ", work});
  out.expected = concat({"at most ", number_text(most_use * static_cast<double>(use.cpus))});
  out.what_to_do =
      is_named ? "end these processes, or bind the ranks to other processors, and measure again"
               : "look for programs on the host itself (`top`), which a container does not show, "
                 "and for a hypervisor that shares the processors, and measure again";
  return out;
}

}  // namespace plait::detail::doctor

namespace plait::ext::activity_rules {

PLAIT_DECL std::vector<finding> busy_cpu(measured_job const& of) {
  std::vector<finding> out;
  // Ranks with the same reason are one note.
  for (std::size_t rank = 0; rank < of.use.size(); ++rank) {
    auto const problem = detail::doctor::problem_of_use(of.use[rank]);
    if (problem.empty()) continue;
    auto measured =
        detail::doctor::finding_words::unread("use of the processors by others", problem).measured;
    auto const host = detail::doctor::host_of(of, rank);
    auto const same = std::find_if(out.begin(), out.end(),
                                   [&](auto const& each) { return each.measured == measured; });
    if (same == out.end()) {
      out.push_back({.id = "busy-cpu",
                     .ranks = {static_cast<int>(rank)},
                     .host = host,
                     .measured = std::move(measured)});
    } else {
      same->ranks.push_back(static_cast<int>(rank));
      if (same->host != host) same->host.clear();
    }
  }
  for (auto const& each : detail::doctor::sets_of_busy_ranks(of))
    out.push_back(detail::doctor::busy_finding(of, each));
  return out;
}

}  // namespace plait::ext::activity_rules

namespace plait::ext {

PLAIT_DECL bool is_quiet(measured_job const& of) {
  bool const is_complete = !of.use.empty() && of.use.size() == of.hosts.size();
  return is_complete && std::all_of(of.use.begin(), of.use.end(), [](processor_use const& each) {
           return detail::doctor::problem_of_use(each).empty() && !detail::doctor::is_busy(each);
         });
}

}  // namespace plait::ext
