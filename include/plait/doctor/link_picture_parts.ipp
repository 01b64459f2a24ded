// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/doctor/link_picture_parts.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/number_range.hpp"

namespace plait::detail::doctor {

PLAIT_DECL void require_links_of_machine(char const* name, ext::machine::link_matrix const& of,
                                         std::size_t ranks) {
  auto const check = [&](std::string const& list, char const* what, std::size_t size) {
    if (size != ranks)
      throw input_error({"machine: ", list, " has ", size, " ", what, ", and ranks has ", ranks,
                         " elements; give one for each rank, or no matrix"});
  };
  if (of.empty()) return;
  check(name, "rows", of.size());
  for (std::size_t from = 0; from < ranks; ++from) {
    check(concat({name, "[", from, "]"}), "columns", of[from].size());
    for (std::size_t to = 0; to < ranks; ++to)
      if (double const each = of[from][to]; !(each >= 0 && each < number_ranges::infinite))
        require_range(concat({"machine::", name, "[", from, "][", to, "]"}), each,
                      number_ranges::finite_from_0);
  }
}

// Checks the sizes of a machine's matrices, and returns its links.
PLAIT_DECL ext::measured_links links_of(ext::machine const& of) {
  require_links_of_machine("link_bytes_per_second", of.link_bytes_per_second, of.ranks.size());
  require_links_of_machine("link_latency_seconds", of.link_latency_seconds, of.ranks.size());
  return {.latency_seconds = of.link_latency_seconds, .bytes_per_second = of.link_bytes_per_second};
}

PLAIT_DECL std::vector<std::string> hosts_of(ext::machine const& of) {
  std::vector<std::string> out;
  for (auto const& rank : of.ranks) out.push_back(rank.host);
  return out;
}

PLAIT_DECL std::size_t characters_in(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char each) {
    return (static_cast<unsigned char>(each) & 0xc0u) != 0x80u;
  }));
}

// Returns the number of bytes at the beginning of all names that need not be shown: the common
// beginning, if a name is long. At least one character of each name remains.
PLAIT_DECL std::size_t bytes_to_omit(std::vector<std::string> const& names) {
  constexpr std::size_t most = 20, dots = 3;
  if (names.size() < 2) return 0;
  bool is_long = false;
  std::size_t same = names[0].size();
  for (auto const& name : names) {
    is_long |= characters_in(name) > most;
    auto const end = std::mismatch(name.begin(), name.end(), names[0].begin(), names[0].end());
    auto const equal = static_cast<std::size_t>(end.first - name.begin());
    same = std::min({same, equal, std::max<std::size_t>(name.size(), 1) - 1});
  }
  // Cut no character of several bytes.
  while (same > 0 && (static_cast<unsigned char>(names[0][same]) & 0xc0u) == 0x80u) --same;
  return is_long && same > dots ? same : 0;
}

PLAIT_DECL ordered_links::ordered_links(ext::machine const& of)
    : of_(of), links_(links_of(of)), limits_(links_, hosts_of(of)) {
  for (std::size_t host = 0; host < hosts(); ++host)
    for (std::size_t rank = 0; rank < of.ranks.size(); ++rank)
      if (limits_.host_of(rank) == host) order_.push_back(rank);
  omitted_ = bytes_to_omit(limits_.hosts());
}

PLAIT_DECL std::string ordered_links::name_of_host(std::size_t rank) const {
  auto const& name = of_.ranks[rank].host;
  return omitted_ == 0 ? name : concat({"...", name.substr(omitted_)});
}

PLAIT_DECL std::vector<std::uint8_t> ordered_links::pairs_of(
    std::vector<ext::finding> const& findings, bool is_time) const {
  auto const& numbers = is_time ? limits_.latencies() : limits_.bandwidths();
  auto const ranks = order_.size();
  std::vector<std::uint8_t> out(ranks * ranks);
  for (auto const& each : findings) {
    if (each.id != "slow-pair" && each.id != "slow-host" && each.id != "shared-link") continue;
    std::vector<std::uint8_t> is_in(ranks, each.ranks.empty() ? 1 : 0);
    for (int const rank : each.ranks)
      if (rank >= 0 && static_cast<std::size_t>(rank) < ranks)
        is_in[static_cast<std::size_t>(rank)] = 1;
    std::vector<std::size_t> in;
    for (std::size_t rank = 0; rank < ranks; ++rank)
      if (is_in[rank] != 0) in.push_back(rank);
    // A finding about one rank or one host is also about its pairs with others.
    bool const with_others =
        each.ranks.size() == 1 || (each.id != "slow-pair" && !each.host.empty());
    std::vector<std::size_t> all, slow;
    bool has_slow = false;
    for (auto const a : with_others ? order_ : in)
      for (auto const b : with_others&& is_in[a] != 0 ? order_ : in) {
        if (a == b) continue;
        // A finding about several hosts is about the pairs between them.
        if (each.id != "slow-pair" && each.host.empty() && are_on_one_host(a, b)) continue;
        auto const state = limits_.state(a, b);
        if (state != link_state::not_compared) all.push_back(a * ranks + b);
        has_slow |= state == link_state::slow;
        if (numbers.is_slow(a, b)) slow.push_back(a * ranks + b);
      }
    for (auto const at : has_slow ? slow : all) out[at] = 1;
  }
  return out;
}

PLAIT_DECL colour_scale::colour_scale(ext::machine::link_matrix const& of, bool more_is_faster)
    : more_is_faster_(more_is_faster) {
  for (auto const& row : of)
    for (double const each : row) {
      if (each <= 0) continue;
      if (best_ == 0) best_ = worst_ = each;
      if (is_slower(best_, each)) best_ = each;
      if (is_slower(each, worst_)) worst_ = each;
    }
  double const most = more_is_faster ? best_ / 2 : best_ * 2;
  if (is_slower(most, worst_)) worst_ = most;
}

PLAIT_DECL std::size_t colour_scale::level(double value) const {
  double const place = std::log(value / best_) / std::log(worst_ / best_);
  auto const level = static_cast<std::size_t>(std::max(place * double{levels}, 0.0));
  return std::min(level, levels - 1);
}

PLAIT_DECL double colour_scale::value_at(double place) const {
  return best_ * std::pow(worst_ / best_, place);
}

}  // namespace plait::detail::doctor
