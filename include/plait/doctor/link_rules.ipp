// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/doctor/link_rules.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "plait/core/concat.hpp"
#include "plait/doctor/link_limits.hpp"
#include "plait/doctor/rule_parts.hpp"
#include "plait/mesh/ranks_text.hpp"

namespace plait::detail::doctor {

PLAIT_DECL std::string place_of(ext::measured_job const& of, std::size_t rank) {
  std::string out = concat({"host ", of.hosts[rank]});
  if (of.cpus.empty() || of.cpus[rank].empty()) return out;
  std::vector<int> cpus;
  for (auto const cpu : of.cpus[rank]) cpus.push_back(static_cast<int>(cpu));
  return out += concat({", ", cpus_text(cpus)});
}

/// Makes findings of the slow links of a job. It looks for all slow pairs of a host first, then of
/// two hosts, then of a rank. A finding about them replaces the findings about single pairs. Pairs
/// that are slow for themselves come first, then, in the same order, pairs that share a link.
class link_findings {
 public:
  explicit link_findings(ext::measured_job const& of)
      : job_(of), limits_(of.links, of.hosts), ranks_(of.hosts.size()) {
    states_.assign(ranks_ * ranks_, link_state::not_compared);
    is_reported_.assign(ranks_ * ranks_, 0);
    ranks_of_host_.resize(hosts());
    for (std::size_t rank = 0; rank < ranks_; ++rank)
      ranks_of_host_[limits_.host_of(rank)].push_back(rank);
    for (std::size_t a = 0; a < ranks_; ++a)
      for (std::size_t b = 0; b < ranks_; ++b)
        if (a != b) states_[at(a, b)] = std::max(states_[at(a, b)], limits_.state(a, b));
  }

  [[nodiscard]] std::vector<ext::finding> all() {
    for (auto const state : {link_state::slow, link_state::shared}) {
      count(state);
      add_hosts(state);
      add_pairs_of_hosts(state);
      add_ranks(state);
      if (state == link_state::slow) add_pairs();
      else add_shared_links();
    }
    return std::move(out_);
  }

 private:
  using rank_pair = std::array<std::size_t, 2>;
  using rank_pairs = std::vector<rank_pair>;

  /// The number of compared pairs between two hosts, or within a host, and the number of these
  /// pairs that have the state which count() looked for.
  struct host_pair {
    std::size_t pairs = 0, found = 0;
    [[nodiscard]] bool is_all() const { return pairs > 0 && pairs == found; }
  };

  /// Returns the index of a pair, which is the same for both directions.
  [[nodiscard]] std::size_t at(std::size_t a, std::size_t b) const {
    return std::min(a, b) * ranks_ + std::max(a, b);
  }
  [[nodiscard]] std::size_t hosts() const { return limits_.hosts().size(); }
  [[nodiscard]] host_pair& between(std::size_t a, std::size_t b) {
    return between_[std::min(a, b) * hosts() + std::max(a, b)];
  }

  // Counts, for each two hosts, the compared pairs and the pairs with a state.
  void count(link_state state) {
    between_.assign(hosts() * hosts(), {});
    for (std::size_t a = 0; a < ranks_; ++a)
      for (std::size_t b = a + 1; b < ranks_; ++b) {
        auto const own = states_[at(a, b)];
        if (own == link_state::not_compared) continue;
        auto& here = between(limits_.host_of(a), limits_.host_of(b));
        ++here.pairs;
        here.found += own == state ? 1 : 0;
      }
  }

  // Adds a finding for each host of which all pairs with all other hosts have a state. It needs two
  // other hosts: with one, either host could be the cause, see add_pairs_of_hosts().
  void add_hosts(link_state state) {
    std::vector<std::size_t> found;
    for (std::size_t host = 0; host < hosts(); ++host) {
      std::size_t others = 0, with_state = 0;
      for (std::size_t other = 0; other < hosts(); ++other) {
        if (other == host || between(host, other).pairs == 0) continue;
        ++others;
        with_state += between(host, other).is_all() ? 1 : 0;
      }
      if (others >= 2 && others == with_state) found.push_back(host);
    }
    for (auto const host : found) {
      auto const pairs = pairs_of(state, [&](std::size_t a, std::size_t b) {
        return (limits_.host_of(a) == host) != (limits_.host_of(b) == host);
      });
      std::vector<int> ranks;
      for (auto const rank : ranks_of_host_[host]) ranks.push_back(static_cast<int>(rank));
      add(state, "slow-host", ranks,
          concat({"all ", pairs.size(), " pairs of this host and other hosts"}), pairs);
    }
    for (auto const host : found)
      for (std::size_t a = 0; a < ranks_; ++a)
        for (std::size_t b = 0; b < ranks_; ++b)
          if ((limits_.host_of(a) == host) != (limits_.host_of(b) == host))
            is_reported_[at(a, b)] = 1;
  }

  // Adds a finding for each two hosts of which all pairs between the hosts have a state, and for
  // each host of which all pairs within the host have it.
  void add_pairs_of_hosts(link_state state) {
    for (std::size_t one = 0; one < hosts(); ++one)
      for (std::size_t other = one; other < hosts(); ++other) {
        if (between(one, other).pairs < 2 || !between(one, other).is_all()) continue;
        auto const pairs = unreported_between(state, one, other);
        if (pairs.empty()) continue;
        auto const& names = limits_.hosts();
        add(state, "slow-host", ranks_of(pairs),
            one == other ? concat({"all ", pairs.size(), " pairs within this host"})
                         : concat({"all ", pairs.size(), " pairs between hosts ", names[one],
                                   " and ", names[other]}),
            pairs);
        report(pairs);
      }
  }

  // Adds a finding for each rank of which all pairs within its host, or all pairs with other hosts,
  // have a state and are in no finding yet.
  void add_ranks(link_state state) {
    rank_pairs reported;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      std::array<rank_pairs, 2> of_kind;
      std::array<bool, 2> is_all{true, true};
      for (std::size_t other = 0; other < ranks_; ++other) {
        auto const pair = at(rank, other);
        if (other == rank || states_[pair] == link_state::not_compared) continue;
        std::size_t const kind = limits_.host_of(rank) == limits_.host_of(other) ? 0 : 1;
        of_kind[kind].push_back({std::min(rank, other), std::max(rank, other)});
        if (states_[pair] != state || is_reported_[pair] != 0) is_all[kind] = false;
      }
      rank_pairs pairs;
      std::string which = "the host's other ranks";
      for (std::size_t kind = 0; kind < 2; ++kind) {
        if (!is_all[kind] || of_kind[kind].empty()) continue;
        if (kind == 1) which = pairs.empty() ? "ranks of other hosts" : "other ranks";
        pairs.insert(pairs.end(), of_kind[kind].begin(), of_kind[kind].end());
      }
      if (pairs.size() < 2) continue;
      add(state, "slow-pair", {static_cast<int>(rank)},
          concat({"all ", pairs.size(), " pairs of this rank", cpus_of(rank), " and ", which}),
          pairs);
      reported.insert(reported.end(), pairs.begin(), pairs.end());
    }
    report(reported);
  }

  // Adds a finding for each slow pair that is in no finding yet.
  void add_pairs() {
    for (auto const& [a, b] : pairs_of(link_state::slow, [](auto, auto) { return true; })) {
      bool const there = limits_.state(a, b) == link_state::slow;
      bool const back = limits_.state(b, a) == link_state::slow;
      auto const first = there ? a : b, second = there ? b : a;
      bool const is_one_host = job_.hosts[a] == job_.hosts[b];
      auto const place = [&](std::size_t rank) {
        return is_one_host ? cpus_of(rank) : concat({" (", place_of(job_, rank), ")"});
      };
      add(link_state::slow, "slow-pair", {static_cast<int>(a), static_cast<int>(b)},
          concat({"rank ", first, place(first), " sends to rank ", second, place(second),
                  there && back ? ", and receives from it," : ""}),
          {{a, b}});
    }
  }

  // Adds a finding for each two hosts, and for each host, for the pairs between or within them that
  // share a link and are in no finding yet.
  void add_shared_links() {
    for (std::size_t one = 0; one < hosts(); ++one)
      for (std::size_t other = one; other < hosts(); ++other) {
        auto const pairs = unreported_between(link_state::shared, one, other);
        if (pairs.empty()) continue;
        auto const& names = limits_.hosts();
        auto const where = one == other
                               ? concat({"within this host"})
                               : concat({"between hosts ", names[one], " and ", names[other]});
        add(link_state::shared, "slow-host", ranks_of(pairs),
            concat({pairs.size(), " of ", between(one, other).pairs, " pairs ", where}), pairs);
      }
  }

  // Returns the pairs that have a state, are in no finding yet, and for which `which` returns true.
  template <class Which>
  [[nodiscard]] rank_pairs pairs_of(link_state state, Which which) const {
    rank_pairs out;
    for (std::size_t a = 0; a < ranks_; ++a)
      for (std::size_t b = a + 1; b < ranks_; ++b)
        if (states_[at(a, b)] == state && is_reported_[at(a, b)] == 0 && which(a, b))
          out.push_back({a, b});
    return out;
  }
  [[nodiscard]] rank_pairs unreported_between(link_state state, std::size_t one,
                                              std::size_t other) const {
    rank_pairs out;
    for (auto const first : ranks_of_host_[one])
      for (auto const second : ranks_of_host_[other]) {
        if (one == other && first >= second) continue;
        if (states_[at(first, second)] == state && is_reported_[at(first, second)] == 0)
          out.push_back({std::min(first, second), std::max(first, second)});
      }
    std::sort(out.begin(), out.end());
    return out;
  }
  void report(rank_pairs const& pairs) {
    for (auto const& [a, b] : pairs) is_reported_[at(a, b)] = 1;
  }

  [[nodiscard]] static std::vector<int> ranks_of(rank_pairs const& pairs) {
    std::vector<int> out;
    for (auto const& pair : pairs)
      for (auto const rank : pair) out.push_back(static_cast<int>(rank));
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  [[nodiscard]] std::string cpus_of(std::size_t rank) const {
    auto const place = place_of(job_, rank);
    auto const name = job_.hosts[rank].size() + std::string_view("host ").size();
    return place.size() == name ? "" : concat({" (", place.substr(name + 2), ")"});
  }

  // Returns the number of ranks that share a link: the number of `ranks` on the host that has
  // fewest of them, since a rank on one host sends to one rank on the other host at a time.
  [[nodiscard]] std::size_t shared_by(std::vector<int> const& ranks) const {
    std::vector<std::size_t> of_host(hosts());
    for (int const rank : ranks) ++of_host[limits_.host_of(static_cast<std::size_t>(rank))];
    std::size_t least = ranks.size();
    for (auto const each : of_host)
      if (each > 0) least = std::min(least, each);
    return least;
  }

  // Appends the slowest number of some pairs, and its median, to the words of a finding. Returns
  // false if no number is slow. `is_time`: true if the numbers are latencies.
  bool add_worst(ext::finding& words, link_numbers const& numbers, rank_pairs const& pairs,
                 bool is_time) const {
    rank_pair worst{};
    double least = 1;
    for (auto const& [a, b] : pairs)
      for (auto const& [from, to] : {rank_pair{a, b}, rank_pair{b, a}}) {
        if (!numbers.is_slow(from, to)) continue;
        double const share = numbers.share(numbers.value(from, to), from, to);
        if (share >= least) continue;
        least = share;
        worst = {from, to};
      }
    if (least == 1) return false;
    auto const [from, to] = worst;
    auto const text = [&](double value) { return is_time ? time_text(value) : rate_text(value); };
    // A time as a multiple of the median, a rate as a part of it.
    auto const ratio = [&](double value) {
      double const share = numbers.share(value, from, to);
      return is_time ? concat({ratio_text(1 / share), " times"})
                     : concat({ratio_text(share), " of"});
    };
    auto const value = numbers.value(from, to), alone = numbers.alone(from, to);
    words.measured += concat(
        {is_time ? " with a latency of " : " at ", text(value), ", ", ratio(value), " the median"});
    if (alone > 0)
      words.measured += concat(
          {" (while no other pair sends: ", text(alone), ", ", ratio(alone), " the median)"});
    bool const is_within = limits_.host_of(from) == limits_.host_of(to);
    words.expected += concat({words.expected.empty() ? "" : " and ", text(numbers.median(from, to)),
                              ", the median ", is_time ? "latency" : "bandwidth",
                              is_within ? " within hosts" : " between hosts"});
    return true;
  }

  void add(link_state state, char const* id, std::vector<int> ranks, std::string const& subject,
           rank_pairs const& pairs) {
    bool const is_shared = state == link_state::shared;
    ext::finding found{.id = is_shared ? "shared-link" : id,
                       .severity = ext::finding_severity::slow,
                       .ranks = std::move(ranks)};
    auto const host = limits_.host_of(static_cast<std::size_t>(found.ranks.front()));
    bool const is_one_host = std::all_of(found.ranks.begin(), found.ranks.end(), [&](int rank) {
      return limits_.host_of(static_cast<std::size_t>(rank)) == host;
    });
    if (is_one_host) found.host = limits_.hosts()[host];
    found.measured = concat({subject, pairs.size() > 1 ? ": the slowest" : ""});
    bool const has_bandwidth = add_worst(found, limits_.bandwidths(), pairs, false);
    if (has_bandwidth && pairs_have_latency(pairs)) found.measured += ", and";
    (void)add_worst(found, limits_.latencies(), pairs, true);
    bool const is_within = limits_.host_of(pairs[0][0]) == limits_.host_of(pairs[0][1]);
    auto const sharing = is_shared ? shared_by(found.ranks) : 1;
    if (is_shared)
      found.measured +=
          sharing == 1
              ? std::string(", shared with other pairs")
              : concat({", shared by ", sharing, " ranks of ", is_within ? "the host" : "a host"});
    if (sharing > 1)
      found.what_to_do = is_within ? "bind the ranks to cpus of all sockets, or use fewer ranks"
                                   : "compare the network interfaces of the hosts and their links "
                                     "to the switch, or use fewer ranks on a host";
    else
      found.what_to_do = is_within ? "look for other programs on the cpus of these ranks, and bind "
                                     "each rank to its own cpus"
                                   : "check the network interfaces of these hosts, their cables "
                                     "and the ports of the switch";
    out_.push_back(std::move(found));
  }

  [[nodiscard]] bool pairs_have_latency(rank_pairs const& pairs) const {
    return std::any_of(pairs.begin(), pairs.end(), [&](auto const& pair) {
      return limits_.latencies().is_slow(pair[0], pair[1]) ||
             limits_.latencies().is_slow(pair[1], pair[0]);
    });
  }

  ext::measured_job const& job_;
  link_limits limits_;
  std::size_t ranks_;
  std::vector<link_state> states_{};
  std::vector<std::uint8_t> is_reported_{};
  std::vector<host_pair> between_{};
  std::vector<std::vector<std::size_t>> ranks_of_host_{};
  std::vector<ext::finding> out_{};
};

PLAIT_DECL std::vector<ext::finding> check_links(ext::measured_job const& of) {
  return link_findings(of).all();
}

}  // namespace plait::detail::doctor
