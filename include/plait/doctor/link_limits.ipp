// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/doctor/link_limits.hpp"

#include <algorithm>
#include <cstdio>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/number_range.hpp"

namespace plait::detail::doctor {

PLAIT_DECL double faster_median(std::vector<double> of, bool more_is_faster) {
  auto const middle = more_is_faster ? of.size() / 2 : (of.size() - 1) / 2;
  auto const at = of.begin() + static_cast<std::ptrdiff_t>(middle);
  std::nth_element(of.begin(), at, of.end());
  return *at;
}

PLAIT_DECL std::string ratio_text(double ratio) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2g", ratio);
  return text.data();
}

// Returns a number as text, with the largest unit in which it is at least 1. Each of the `units` is
// a thousandth of the previous one; the first one has the size `first`.
PLAIT_DECL std::string text_with_unit(double value, double first,
                                      std::array<char const*, 4> const& units) {
  std::size_t unit = 0;
  value /= first;
  // 0.9995 would be rounded to "1".
  while (value < 0.9995 && unit + 1 < units.size()) value *= 1000, ++unit;
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), value < 999.5 ? "%.3g %s" : "%.0f %s", value,
                units[unit]);
  return text.data();
}

PLAIT_DECL std::string rate_text(double bytes_per_second) {
  return text_with_unit(bytes_per_second, 1e9, {"GB/s", "MB/s", "kB/s", "bytes/s"});
}

PLAIT_DECL std::string time_text(double seconds) {
  return text_with_unit(seconds, 1, {"s", "ms", "us", "ns"});
}

PLAIT_DECL void require_size(std::string const& list, std::size_t size, std::string_view what,
                             std::size_t ranks) {
  if (size == ranks) return;
  throw input_error({"measured_job: ", list, " has ", size, " ", what, ", and hosts has ", ranks,
                     "; give one for each rank, or none"});
}

PLAIT_DECL void require_matrix(std::string const& name, ext::machine::link_matrix const& of,
                               std::size_t ranks) {
  if (of.empty()) return;
  require_size(name, of.size(), "rows", ranks);
  for (std::size_t from = 0; from < ranks; ++from) {
    require_size(concat({name, "[", from, "]"}), of[from].size(), "columns", ranks);
    for (std::size_t to = 0; to < ranks; ++to)
      // The text is made only for a wrong number, because a large job has a million pairs.
      if (double const each = of[from][to]; !(each >= 0 && each < number_ranges::infinite))
        require_range(concat({"measured_job::", name, "[", from, "][", to, "]"}), each,
                      number_ranges::finite_from_0);
  }
}

PLAIT_DECL link_numbers::link_numbers(ext::machine::link_matrix const& of,
                                      ext::machine::link_matrix const& alone,
                                      std::vector<std::size_t> const& host_of, bool more_is_faster)
    : of_(of), alone_(alone), host_of_(host_of), more_is_faster_(more_is_faster) {
  auto const ranks = host_of.size();
  require_matrix(more_is_faster ? "links.bytes_per_second" : "links.latency_seconds", of, ranks);
  require_matrix(more_is_faster ? "links.bytes_alone_per_second" : "links.latency_alone_seconds",
                 alone, ranks);
  std::array<std::vector<double>, 2> of_ranks;
  std::array<std::size_t, 2> pairs{};
  for (std::size_t rank = 0; rank < ranks && !of.empty(); ++rank) {
    std::array<std::vector<double>, 2> own;
    for (std::size_t other = 0; other < ranks; ++other) {
      if (other == rank) continue;
      auto const which = kind(rank, other);
      for (double const each : {of[rank][other], of[other][rank]})
        if (each > 0) own[which].push_back(each);
      // Both directions of a pair are one pair.
      if (rank < other && (of[rank][other] > 0 || of[other][rank] > 0)) ++pairs[which];
    }
    for (std::size_t which = 0; which < 2; ++which)
      if (!own[which].empty()) of_ranks[which].push_back(faster_median(own[which], more_is_faster));
  }
  for (std::size_t which = 0; which < 2; ++which)
    if (pairs[which] >= 2) medians_[which] = faster_median(of_ranks[which], more_is_faster);
}

PLAIT_DECL bool link_numbers::is_below_limit(double value, std::size_t from, std::size_t to) const {
  if (share(value, from, to) >= least_link_share) return false;
  return more_is_faster_ || value - median(from, to) >= least_excess_seconds;
}

PLAIT_DECL bool link_numbers::is_slow(std::size_t from, std::size_t to) const {
  return is_compared(from, to) && is_below_limit(value(from, to), from, to);
}

PLAIT_DECL bool link_numbers::is_fine_alone(std::size_t from, std::size_t to) const {
  return alone(from, to) > 0 && !is_below_limit(alone(from, to), from, to);
}

// Returns the index of each rank's host in `names`, to which it adds each new name.
PLAIT_DECL std::vector<std::size_t> numbers_of_hosts(std::vector<std::string> const& hosts,
                                                     std::vector<std::string>& names) {
  std::vector<std::size_t> out;
  for (auto const& host : hosts) {
    auto const at = std::find(names.begin(), names.end(), host);
    out.push_back(static_cast<std::size_t>(at - names.begin()));
    if (at == names.end()) names.push_back(host);
  }
  return out;
}

PLAIT_DECL link_limits::link_limits(ext::measured_links const& links,
                                    std::vector<std::string> const& hosts)
    : host_of_(numbers_of_hosts(hosts, hosts_)),
      bandwidths_(links.bytes_per_second, links.bytes_alone_per_second, host_of_, true),
      latencies_(links.latency_seconds, links.latency_alone_seconds, host_of_, false) {}

PLAIT_DECL link_state link_limits::state(std::size_t from, std::size_t to) const {
  bool is_shared = false, is_compared = false;
  for (auto const* const each : {&bandwidths_, &latencies_}) {
    is_compared |= each->is_compared(from, to);
    if (!each->is_slow(from, to)) continue;
    if (!each->is_fine_alone(from, to)) return link_state::slow;
    is_shared = true;
  }
  if (is_shared) return link_state::shared;
  return is_compared ? link_state::fine : link_state::not_compared;
}

}  // namespace plait::detail::doctor
