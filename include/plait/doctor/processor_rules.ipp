// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/doctor/processor_rules.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"
#include "plait/doctor/rule_parts.hpp"
#include "plait/mesh/ranks_text.hpp"

namespace plait::detail::doctor {

/// Assigns processors to ranks of a host, each processor to one rank at most.
class cpu_matching {
 public:
  explicit cpu_matching(std::vector<host_settings const*> of) : of_(std::move(of)) {
    int most = -1;
    for (auto const* const each : of_)
      for (int const cpu : each->cpus.value()) most = std::max(most, cpu);
    owner_.assign(static_cast<std::size_t>(most + 1), none);
  }

  /// Assigns one more processor to rank `i` of the list, if need be by reassigning the processors
  /// of other ranks. Returns false if that is impossible. Then cpus() returns the processors that
  /// the ranks of the shortage may use.
  [[nodiscard]] bool add(std::size_t i) {
    cpu_seen_.assign(owner_.size(), 0);
    return try_to_add(i);
  }
  [[nodiscard]] std::vector<int> cpus() const {
    std::vector<int> out;
    for (std::size_t cpu = 0; cpu < cpu_seen_.size(); ++cpu)
      if (cpu_seen_[cpu] != 0) out.push_back(static_cast<int>(cpu));
    return out;
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  // Searches for an augmenting path, breadth first: a recursive search could nest as many calls as
  // the list has ranks.
  bool try_to_add(std::size_t first) {
    std::vector<std::size_t> ahead{first};
    std::vector<std::size_t> came_from(owner_.size(), none);  // the rank that asked for the cpu
    std::vector<std::size_t> wanted(of_.size(), none);        // the cpu that its owner has to leave
    std::vector<char> seen(of_.size());
    seen[first] = 1;
    for (std::size_t at = 0; at < ahead.size(); ++at) {
      auto const rank = ahead[at];
      for (int const each : of_[rank]->cpus.value()) {
        auto const cpu = static_cast<std::size_t>(each);
        if (cpu_seen_[cpu] != 0) continue;
        cpu_seen_[cpu] = 1;
        came_from[cpu] = rank;
        if (owner_[cpu] == none) {
          give(cpu, came_from, wanted);
          return true;
        }
        if (auto const owner = owner_[cpu]; seen[owner] == 0) {
          seen[owner] = 1;
          wanted[owner] = cpu;
          ahead.push_back(owner);
        }
      }
    }
    return false;
  }

  void give(std::size_t cpu, std::vector<std::size_t> const& came_from,
            std::vector<std::size_t> const& wanted) {
    while (cpu != none) {
      auto const rank = came_from[cpu];
      owner_[cpu] = rank;
      cpu = wanted[rank];
    }
  }

  std::vector<host_settings const*> of_;
  std::vector<std::size_t> owner_;  // indexed by processor
  std::vector<char> cpu_seen_;
};

/// Ranks of a host that together need more processors than they may use.
struct cpu_shortage {
  std::vector<host_settings const*> of{};
  std::vector<int> cpus{};
};

// Finds all shortages, if each rank needs `need(rank)` processors.
PLAIT_DECL std::vector<cpu_shortage> cpu_shortages(
    all_settings const& all, function_reference<std::uint64_t(host_settings const&)> need) {
  std::vector<cpu_shortage> out;
  for (auto ranks : by_host(all)) {
    auto const is_unusable = [](host_settings const* each) {
      return !each->cpus.is_known() || !is_list_of_cpus(each->cpus.value());
    };
    ranks.erase(std::remove_if(ranks.begin(), ranks.end(), is_unusable), ranks.end());
    for (bool is_done = false; !is_done;) {
      is_done = true;
      cpu_matching matching(ranks);
      for (std::size_t i = 0; i < ranks.size() && is_done; ++i) {
        // One thread more than the rank has processors is enough to find the shortage, so a huge
        // number of threads takes no time.
        auto const wanted =
            std::min<std::uint64_t>(need(*ranks[i]), ranks[i]->cpus.value().size() + 1);
        for (std::uint64_t thread = 0; thread < wanted && is_done; ++thread)
          is_done = matching.add(i);
      }
      if (is_done) break;
      cpu_shortage found{.cpus = matching.cpus()};
      // All ranks that may run on no other processors take part in the shortage.
      std::vector<host_settings const*> others;
      for (auto const* const each : ranks) {
        auto const& own = each->cpus.value();
        bool const is_within =
            std::includes(found.cpus.begin(), found.cpus.end(), own.begin(), own.end());
        (is_within ? found.of : others).push_back(each);
      }
      if (found.of.empty()) break;
      out.push_back(std::move(found));
      ranks = std::move(others);
    }
  }
  return out;
}

PLAIT_DECL std::uint64_t threads_of(host_settings const& of) {
  return of.blas_threads.is_known() ? std::max<std::uint64_t>(of.blas_threads.value(), 1) : 1;
}

// Returns the sum of the threads of some ranks, or the greatest number if the sum exceeds it.
PLAIT_DECL std::uint64_t threads_of(std::vector<host_settings const*> const& of) {
  std::uint64_t sum = 0;
  for (auto const* const each : of) sum += std::min(threads_of(*each), no_limit - sum);
  return sum;
}

PLAIT_DECL std::string ranks_and_threads(std::vector<host_settings const*> const& of) {
  return concat({of.size(), of.size() == 1 ? " rank with " : " ranks with ", threads_of(of),
                 " BLAS threads"});
}

PLAIT_DECL std::vector<finding> threads_above_quota(all_settings const& all) {
  std::vector<std::vector<host_settings const*>> groups;
  for (auto const& each : all) {
    if (!each.quota.is_known() || each.quota.value().group.empty()) continue;
    auto same = std::find_if(groups.begin(), groups.end(), [&](auto const& other) {
      return other[0]->host == each.host &&
             other[0]->quota.value().group == each.quota.value().group;
    });
    if (same == groups.end()) same = groups.insert(same, std::vector<host_settings const*>{});
    same->push_back(&each);
  }
  std::vector<finding> out;
  for (auto const& group : groups) {
    double const quota = group[0]->quota.value().cpus;
    if (static_cast<double>(threads_of(group)) <= quota) continue;
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", quota);
    out.push_back(
        about(group, "blas-threads",
              {.measured = concat({ranks_and_threads(group), " in a control group with a quota of ",
                                   text, " cpus"}),
               .expected = concat({"at most ", text, " threads"}),
               .what_to_do = "raise the quota, use fewer ranks, or set OPENBLAS_NUM_THREADS=1"}));
  }
  return out;
}

}  // namespace plait::detail::doctor

namespace plait::ext::setting_rules {

using detail::doctor::finding_words;
using severity = finding_severity;

PLAIT_DECL std::vector<finding> blas_code(std::vector<host_settings> const& all) {
  return detail::doctor::of_each_rank(
      all, "blas-code", [](host_settings const& of) -> finding_words {
        constexpr auto what = "code of matrix products";
        if (!of.blas_code.is_known()) return finding_words::unread(what, of.blas_code.problem());
        if (!of.processor_flags.is_known())
          return finding_words::unread(what, of.processor_flags.problem());
        auto const better = detail::doctor::better_openblas_code(of);
        if (better.empty()) return {};
        return {
            .measured = concat({"OpenBLAS runs its code for ",
                                detail::in_quotes(of.blas_code.value()), " on the processor ",
                                of.processor.is_known() ? detail::in_quotes(of.processor.value())
                                                        : "of this host"}),
            .expected = concat({"its code for ", better}),
            .what_to_do = concat({"set OPENBLAS_CORETYPE=", better,
                                  ", or install an OpenBLAS that knows this processor"})};
      });
}

PLAIT_DECL std::vector<finding> blas_threads(std::vector<host_settings> const& all) {
  auto out = detail::doctor::of_each_rank(all, "blas-threads", [](host_settings const& of) {
    constexpr auto what = "threads of matrix products";
    if (!of.blas_threads.is_known()) return finding_words::unread(what, of.blas_threads.problem());
    if (!of.cpus.is_known()) return finding_words::unread(what, of.cpus.problem());
    if (!of.quota.is_known()) return finding_words::unread(what, of.quota.problem());
    return finding_words{};
  });
  for (auto const& found : detail::doctor::cpu_shortages(
           all, [](host_settings const& of) { return detail::doctor::threads_of(of); })) {
    // If each rank has one thread, the rule shared_cpu finds them.
    if (detail::doctor::threads_of(found.of) == found.of.size()) continue;
    out.push_back(detail::doctor::about(
        found.of, "blas-threads",
        {.measured = concat({detail::doctor::ranks_and_threads(found.of), " may use ",
                             detail::doctor::cpus_text(found.cpus), " only"}),
         .expected = concat(
             {"at most ", found.cpus.size(), found.cpus.size() == 1 ? " thread" : " threads"}),
         .what_to_do = "set OPENBLAS_NUM_THREADS=1, or bind ranks to more cpus"}));
  }
  detail::doctor::append(out, detail::doctor::threads_above_quota(all));
  return out;
}

PLAIT_DECL std::vector<finding> shared_cpu(std::vector<host_settings> const& all) {
  auto out = detail::doctor::of_each_rank(all, "shared-cpu", [](host_settings const& of) {
    return of.cpus.is_known() ? finding_words{}
                              : finding_words::unread("cpus of a rank", of.cpus.problem());
  });
  for (auto const& found :
       detail::doctor::cpu_shortages(all, [](host_settings const&) { return std::uint64_t{1}; }))
    out.push_back(detail::doctor::about(
        found.of, "shared-cpu",
        {.measured = concat(
             {found.of.size(), " ranks may use ", detail::doctor::cpus_text(found.cpus), " only"}),
         .expected = "a cpu for each rank",
         .what_to_do = "bind each rank to its own cpus, or start fewer ranks on this host"}));
  return out;
}

PLAIT_DECL std::vector<finding> throttled(std::vector<host_settings> const& all) {
  using detail::doctor::common_value;
  return detail::doctor::of_each_common_value(
      all, "throttled", "time without a processor because of a quota",
      [](host_settings const& of) {
        using result = reading<common_value>;
        if (!of.quota.is_known()) return result::unknown(of.quota.problem());
        auto const& quota = of.quota.value();
        if (!quota.throttled_periods.is_known())
          return result::unknown(quota.throttled_periods.problem());
        if (!quota.periods.is_known()) return result::unknown(quota.periods.problem());
        return result(
            common_value{static_cast<double>(quota.throttled_periods.value()), quota.group});
      },
      [](host_settings const& of) -> finding_words {
        auto const& quota = of.quota.value();
        auto const stopped = quota.throttled_periods.value(), periods = quota.periods.value();
        if (stopped == 0) return {};
        bool const is_rare = static_cast<double>(stopped) < 0.01 * static_cast<double>(periods);
        return {.measured = concat({"the control group ", detail::path_in_quotes(quota.group),
                                    " was stopped in ", stopped, " of ", periods,
                                    " periods, because its quota of processor time was used up"}),
                .expected = "0",
                .what_to_do = "raise the quota, or use fewer threads",
                .severity = is_rare ? severity::note : severity::slow};
      });
}

PLAIT_DECL std::vector<finding> governor(std::vector<host_settings> const& all) {
  return detail::doctor::of_each_rank(
      all, "governor", [](host_settings const& of) -> finding_words {
        if (!of.governors.is_known())
          return finding_words::unread("governor of the processors' clock", of.governors.problem());
        std::string others;
        for (auto const& each : of.governors.value())
          if (each != "'performance'") others += concat({others.empty() ? "" : ", ", each});
        if (others.empty()) return {};
        return {.measured = concat({"the clock governor of the processors is ", others}),
                .expected = "'performance'",
                .what_to_do = "run `cpupower frequency-set -g performance` as root"};
      });
}

PLAIT_DECL std::vector<finding> steal_time(std::vector<host_settings> const& all) {
  auto const share = [](host_settings const& of) {
    return std::min(static_cast<double>(of.stolen_ticks.value()) /
                        std::max(static_cast<double>(of.ticks.value()), 1.0),
                    1.0);
  };
  return detail::doctor::of_each_common_value(
      all, "steal-time", "time that the hypervisor gives to other machines",
      [&](host_settings const& of) {
        using result = reading<detail::doctor::common_value>;
        if (!of.stolen_ticks.is_known()) return result::unknown(of.stolen_ticks.problem());
        if (!of.ticks.is_known()) return result::unknown(of.ticks.problem());
        return result({.amount = share(of)});
      },
      [&](host_settings const& of) -> finding_words {
        if (share(of) < 0.01) return {};
        return {.measured = concat({"the hypervisor gave ", detail::doctor::percent_text(share(of)),
                                    " of the processors' time to other machines (steal)"}),
                .expected = "below 1 %",
                .what_to_do = "use a host whose processors are not shared"};
      });
}

PLAIT_DECL std::vector<finding> swap(std::vector<host_settings> const& all) {
  auto out =
      detail::doctor::of_each_rank(all, "swap", [](host_settings const& of) -> finding_words {
        if (!of.own_swap_bytes.is_known())
          return finding_words::unread("memory of the process in swap",
                                       of.own_swap_bytes.problem());
        if (of.own_swap_bytes.value() == 0) return {};
        return {.measured = concat({detail::doctor::bytes_text(of.own_swap_bytes.value()),
                                    " of the process are in swap"}),
                .expected = "0",
                .what_to_do = "use less memory on this host, or end other programs"};
      });
  detail::doctor::append(
      out, detail::doctor::of_each_common_value(
               all, "swap", "swap of the host",
               [](host_settings const& of) {
                 using result = reading<detail::doctor::common_value>;
                 if (!of.swap_bytes.is_known()) return result::unknown(of.swap_bytes.problem());
                 return result({.amount = static_cast<double>(of.swap_bytes.value())});
               },
               [](host_settings const& of) -> finding_words {
                 if (of.swap_bytes.value() == 0) return {};
                 return {.measured = concat({"the host has ",
                                             detail::doctor::bytes_text(of.swap_bytes.value()),
                                             " in swap"}),
                         .expected = "0",
                         .what_to_do = "look for a program that needs too much memory",
                         .severity = severity::note};
               }));
  return out;
}

PLAIT_DECL std::vector<finding> numa_memory(std::vector<host_settings> const& all) {
  return detail::doctor::of_each_rank(
      all, "numa-memory", [](host_settings const& of) -> finding_words {
        constexpr auto what = "memory on other NUMA nodes";
        if (!of.numa_nodes.is_known()) return finding_words::unread(what, of.numa_nodes.problem());
        auto const& nodes = of.numa_nodes.value();
        if (nodes.size() < 2) return {};
        if (!of.bytes_on_node.is_known())
          return finding_words::unread(what, of.bytes_on_node.problem());
        if (!of.cpus.is_known()) return finding_words::unread(what, of.cpus.problem());
        auto const& own = of.cpus.value();
        double sum = 0, far = 0;
        std::string far_nodes;
        auto const& bytes = of.bytes_on_node.value();
        for (std::size_t node = 0; node < bytes.size(); ++node) {
          bool is_near = false;
          for (auto const& each : nodes) {
            if (each.number != static_cast<int>(node)) continue;
            is_near = std::any_of(own.begin(), own.end(), [&](int cpu) {
              return std::find(each.cpus.begin(), each.cpus.end(), cpu) != each.cpus.end();
            });
          }
          sum += static_cast<double>(bytes[node]);
          if (is_near || bytes[node] == 0) continue;
          far += static_cast<double>(bytes[node]);
          far_nodes += concat({far_nodes.empty() ? "" : ", ", node});
        }
        constexpr double least = 16.0 * 1024 * 1024;
        if (far < least || far < 0.1 * sum) return {};
        return {.measured =
                    concat({detail::doctor::percent_text(far / sum),
                            " of the process's memory is on NUMA "
                            "node ",
                            far_nodes, ", but the rank runs on ", detail::doctor::cpus_text(own)}),
                .expected = "memory on the nodes of these cpus",
                .what_to_do =
                    "bind the rank to cpus and memory of one node when it starts, for example "
                    "with `numactl --cpunodebind=0 --membind=0`"};
      });
}

PLAIT_DECL std::vector<finding> memory_limit(std::vector<host_settings> const& all) {
  return detail::doctor::of_each_rank(
      all, "memory-limit", [](host_settings const& of) -> finding_words {
        constexpr auto what = "memory limit of the control group";
        if (!of.memory_limit_bytes.is_known())
          return finding_words::unread(what, of.memory_limit_bytes.problem());
        if (!of.memory_bytes.is_known())
          return finding_words::unread(what, of.memory_bytes.problem());
        if (of.memory_limit_bytes.value() >= of.memory_bytes.value()) return {};
        return {.measured = concat({"the control group may use ",
                                    detail::doctor::bytes_text(of.memory_limit_bytes.value()),
                                    " of memory"}),
                .expected = concat(
                    {detail::doctor::bytes_text(of.memory_bytes.value()), ", the host's memory"}),
                .what_to_do = "raise the limit if the job needs more; a process above it is killed",
                .severity = severity::note};
      });
}

}  // namespace plait::ext::setting_rules
