// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/doctor/host_activity.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail::doctor {

PLAIT_DECL std::optional<ticks_in_line> ticks_in(std::string_view numbers) {
  constexpr auto greatest = std::numeric_limits<std::uint64_t>::max();
  // The numbers are user, nice, system, idle, iowait, irq, softirq, steal. The time of guests,
  // which follows, is already part of user and nice.
  constexpr int user = 0, system = 2, stolen = 7;
  ticks_in_line out;
  for (int kind = user; kind <= stolen; ++kind) {
    auto const number = whole_number(take_word(numbers));
    if (!number || *number > greatest - out.all) return std::nullopt;
    out.all += *number;
    if (kind <= system) out.used += *number;
    if (kind == stolen) out.stolen = *number;
  }
  return out;
}

PLAIT_DECL reading<std::vector<processor_ticks>> read_processor_ticks(system_files const& files) {
  using result = reading<std::vector<processor_ticks>>;
  std::string const path = "/proc/stat";
  auto const text = files.text(path, system_files::most_bytes);
  if (!text.is_known()) return result::unknown(text.problem());
  std::vector<processor_ticks> out;
  for (std::string_view rest = text.value(); !rest.empty();) {
    auto line = take_until(rest, '\n');
    auto const word = take_word(line);
    if (!word.starts_with("cpu") || word == "cpu") continue;  // "cpu": the sum of all processors
    auto const cpu = whole_number(word.substr(3));
    auto const ticks = ticks_in(line);
    if (!cpu || *cpu > std::uint64_t{greatest_cpu} || !ticks)
      return result::unknown(garbage_in(
          path, concat({"the line ", in_quotes(word), " has not the 8 numbers of a processor"})));
    out.push_back({static_cast<int>(*cpu), ticks->used, ticks->stolen, ticks->all});
  }
  std::sort(out.begin(), out.end(), [](auto const& a, auto const& b) { return a.cpu < b.cpu; });
  bool const repeats = std::adjacent_find(out.begin(), out.end(), [](auto const& a, auto const& b) {
                         return a.cpu == b.cpu;
                       }) != out.end();
  if (repeats) return result::unknown(garbage_in(path, "it repeats a processor"));
  if (out.empty()) return result::unknown(garbage_in(path, "it has no line of a processor"));
  return out;
}

PLAIT_DECL reading<process_ticks> ticks_of_process(std::string_view text, std::uint64_t number,
                                                   std::string const& path) {
  using result = reading<process_ticks>;
  // The name may contain blanks and parentheses.
  auto const open = text.find('('), close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open)
    return result::unknown(garbage_in(path, "it has no name in parentheses"));
  if (whole_number(without_blanks(text.substr(0, open))) != number)
    return result::unknown(
        garbage_in(path, concat({"it does not begin with the number ", number})));
  constexpr std::size_t most_of_name = 64;
  process_ticks out{.name =
                        escaped(text.substr(open + 1, close - open - 1).substr(0, most_of_name))};
  // The numbers of the fields are in proc_pid_stat(5). The first field after the name is 3.
  constexpr int user = 14, system = 15, start = 22, last_cpu = 39;
  auto rest = without_blanks(text.substr(close + 1));
  std::optional<std::uint64_t> found[last_cpu + 1];
  for (int field = 3; field <= last_cpu; ++field) found[field] = whole_number(take_word(rest));
  auto const is_sum = [&] {
    return *found[user] <= std::numeric_limits<std::uint64_t>::max() - *found[system];
  };
  if (!found[user] || !found[system] || !found[start] || !found[last_cpu] || !is_sum() ||
      *found[last_cpu] > std::uint64_t{greatest_cpu})
    return result::unknown(
        garbage_in(path, "its fields 14, 15, 22 and 39 are not times and a cpu"));
  out.used = *found[user] + *found[system];
  out.start = *found[start];
  out.last_cpu = static_cast<int>(*found[last_cpu]);
  return out;
}

PLAIT_DECL reading<std::vector<process_activity>> read_processes(system_files const& files) {
  using result = reading<std::vector<process_activity>>;
  auto const names = files.names("/proc");
  if (!names.is_known()) return result::unknown(names.problem());
  std::vector<process_activity> out;
  for (auto const& name : names.value()) {
    auto const number = whole_number(name);
    if (!number) continue;  // other files
    auto const path = concat({"/proc/", name, "/stat"});
    auto const text = files.text(path);
    // A process that has ended has no folder any more.
    if (!text.is_known() && !files.has(path)) continue;
    out.push_back({*number, text.is_known() ? ticks_of_process(text.value(), *number, path)
                                            : reading<process_ticks>::unknown(text.problem())});
  }
  std::sort(out.begin(), out.end(),
            [](auto const& a, auto const& b) { return a.number < b.number; });
  return out;
}

// Returns null if the snapshot lacks the process.
PLAIT_DECL process_activity const* process_of(std::vector<process_activity> const& all,
                                              std::uint64_t number) {
  auto const at = std::lower_bound(
      all.begin(), all.end(), number,
      [](process_activity const& each, std::uint64_t wanted) { return each.number < wanted; });
  return at != all.end() && at->number == number ? &*at : nullptr;
}

// Returns null if the snapshot lacks the processor.
PLAIT_DECL processor_ticks const* processor_of(std::vector<processor_ticks> const& all, int cpu) {
  auto const at =
      std::lower_bound(all.begin(), all.end(), cpu,
                       [](processor_ticks const& each, int wanted) { return each.cpu < wanted; });
  return at != all.end() && at->cpu == cpu ? &*at : nullptr;
}

// Returns the ticks that a process has used since the snapshot `before`. A process that is not in
// this snapshot, or whose number belonged to another process then, has started since.
PLAIT_DECL reading<double> ticks_since(std::vector<process_activity> const& before,
                                       process_activity const& now) {
  if (!now.ticks.is_known()) return reading<double>::unknown(now.ticks.problem());
  auto const* const then = process_of(before, now.number);
  if (then != nullptr && !then->ticks.is_known())
    return reading<double>::unknown(then->ticks.problem());
  auto const used = now.ticks.value().used;
  bool const is_same = then != nullptr && then->ticks.value().start == now.ticks.value().start;
  auto const earlier = is_same ? then->ticks.value().used : 0;
  return static_cast<double>(used - std::min(used, earlier));
}

/// Ranks of a host that share processors or a process: the indices of the ranks in the caller's
/// list, and their processes and processors, each once and ascending.
struct sharing_ranks {
  std::vector<std::size_t> ranks{};
  std::vector<std::uint64_t> processes{};
  std::vector<int> cpus{};
};

template <class T>
void sort_without_repetition(std::vector<T>& of) {
  std::sort(of.begin(), of.end());
  of.erase(std::unique(of.begin(), of.end()), of.end());
}

// Divides the ranks into sets that have no process and no processor in common, by a disjoint-set
// forest (union-find): next[rank] is another rank of the same set, and the last rank of the chain,
// which has itself as next, represents the set.
PLAIT_DECL std::vector<sharing_ranks> ranks_that_share(std::vector<rank_place> const& ranks) {
  std::vector<std::size_t> next(ranks.size());
  std::iota(next.begin(), next.end(), std::size_t{0});
  auto const last = [&](std::size_t rank) {
    while (next[rank] != rank) rank = next[rank] = next[next[rank]];
    return rank;
  };
  std::vector<std::pair<std::uint64_t, std::size_t>> by_process;
  std::vector<std::pair<int, std::size_t>> by_cpu;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    by_process.emplace_back(ranks[i].process, i);
    for (int const cpu : ranks[i].cpus) by_cpu.emplace_back(cpu, i);
  }
  auto const join_equal = [&](auto& pairs) {
    std::sort(pairs.begin(), pairs.end());
    for (std::size_t i = 1; i < pairs.size(); ++i)
      if (pairs[i - 1].first == pairs[i].first)
        next[last(pairs[i].second)] = last(pairs[i - 1].second);
  };
  join_equal(by_process);
  join_equal(by_cpu);

  std::vector<sharing_ranks> of(ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    auto& set = of[last(i)];
    set.ranks.push_back(i);
    set.processes.push_back(ranks[i].process);
    set.cpus.insert(set.cpus.end(), ranks[i].cpus.begin(), ranks[i].cpus.end());
  }
  std::vector<sharing_ranks> out;
  for (auto& set : of) {
    if (set.ranks.empty()) continue;
    sort_without_repetition(set.processes);
    sort_without_repetition(set.cpus);
    out.push_back(std::move(set));
  }
  return out;
}

/// The ticks of some processors in an interval.
struct interval_ticks {
  double used = 0, stolen = 0;
  double each = 0;  ///< the length of the interval: the mean time of all kinds of a processor
};

PLAIT_DECL reading<interval_ticks> ticks_between(std::vector<processor_ticks> const& before,
                                                 std::vector<processor_ticks> const& after,
                                                 std::vector<int> const& cpus) {
  using result = reading<interval_ticks>;
  constexpr double fewest = 20;
  interval_ticks out;
  for (int const cpu : cpus) {
    auto const *then = processor_of(before, cpu), *now = processor_of(after, cpu);
    if (then == nullptr || now == nullptr)
      return result::unknown(concat({"/proc/stat: there is no line 'cpu", cpu, "'"}));
    // These counters never become smaller. Only iowait may, which is part of `all`.
    if (now->used < then->used || now->stolen < then->stolen)
      return result::unknown(
          concat({"/proc/stat: a counter of cpu ", cpu, " became smaller between two readings"}));
    out.used += static_cast<double>(now->used - then->used);
    out.stolen += static_cast<double>(now->stolen - then->stolen);
    out.each += static_cast<double>(now->all - std::min(now->all, then->all)) /
                static_cast<double>(cpus.size());
  }
  if (out.each < fewest)
    return result::unknown(concat({"only ", static_cast<std::uint64_t>(out.each),
                                   " ticks passed between two readings of /proc/stat, not 20"}));
  return out;
}

// Returns the ticks that the processes of some ranks have used.
PLAIT_DECL reading<double> own_ticks(std::vector<process_activity> const& before,
                                     std::vector<process_activity> const& after,
                                     std::vector<std::uint64_t> const& processes) {
  double out = 0;
  for (auto const number : processes) {
    auto const* const now = process_of(after, number);
    if (now == nullptr)
      return reading<double>::unknown(concat({"/proc/", number, "/stat: missing"}));
    auto const used = ticks_since(before, *now);
    if (!used.is_known()) return used;
    out += used.value();
  }
  return out;
}

// Returns the processes that used at least 2 % of a processor and have run last on one of `cpus`,
// the busiest first. `job`: the numbers of the job's processes, ascending.
PLAIT_DECL std::vector<other_process> others_on(std::vector<process_activity> const& before,
                                                std::vector<process_activity> const& after,
                                                std::vector<int> const& cpus, double ticks,
                                                std::vector<std::uint64_t> const& job) {
  constexpr double least = 0.02;
  constexpr std::size_t most = 4;
  std::vector<other_process> out;
  for (auto const& each : after) {
    auto const used = ticks_since(before, each);
    if (!used.is_known() || used.value() < least * ticks) continue;
    auto const& now = each.ticks.value();
    if (!std::binary_search(cpus.begin(), cpus.end(), now.last_cpu)) continue;
    if (std::binary_search(job.begin(), job.end(), each.number)) continue;
    out.push_back({each.number, now.name, used.value() / ticks, now.last_cpu});
  }
  std::sort(out.begin(), out.end(), [](auto const& a, auto const& b) {
    return a.cpus != b.cpus ? a.cpus > b.cpus : a.number < b.number;
  });
  if (out.size() > most) out.resize(most);
  return out;
}

// Returns the reason why the use is unknown for all ranks of the host; "" if there is none.
PLAIT_DECL std::string problem_of_all(host_activity const& before, host_activity const& after,
                                      std::vector<rank_place> const& ranks) {
  for (auto const* const each : {&before, &after}) {
    if (!each->processors.is_known()) return each->processors.problem();
    if (!each->processes.is_known()) return each->processes.problem();
  }
  // A rank whose processors are unknown may run on the processors of all other ranks.
  bool const are_known =
      std::none_of(ranks.begin(), ranks.end(), [](auto const& each) { return each.cpus.empty(); });
  return are_known ? "" : "the processors of a rank are not known";
}

PLAIT_DECL processor_use use_by_others(host_activity const& before, host_activity const& after,
                                       sharing_ranks const& of,
                                       std::vector<std::uint64_t> const& job) {
  processor_use out{.cpus = of.cpus.size()};
  auto const interval = ticks_between(before.processors.value(), after.processors.value(), of.cpus);
  auto const own = own_ticks(before.processes.value(), after.processes.value(), of.processes);
  if (!interval.is_known() || !own.is_known()) {
    out.others = reading<double>::unknown(interval.is_known() ? own.problem() : interval.problem());
    return out;
  }
  auto const& ticks = interval.value();
  // Some kernels count stolen time also as used by the process that waited. The difference may then
  // be less than 0. It counts as 0, so that it takes nothing away from the stolen time.
  out.others = (std::max(ticks.used - own.value(), 0.0) + ticks.stolen) / ticks.each;
  out.processes =
      others_on(before.processes.value(), after.processes.value(), of.cpus, ticks.each, job);
  return out;
}

}  // namespace plait::detail::doctor

namespace plait::ext {

PLAIT_DECL host_activity read_host_activity(system_files const& files) {
  host_activity out;
  out.processors = detail::doctor::read_processor_ticks(files);
  out.processes = detail::doctor::read_processes(files);
  return out;
}

PLAIT_DECL std::vector<processor_use> use_between(host_activity const& before,
                                                  host_activity const& after,
                                                  std::vector<rank_place> const& ranks) {
  std::vector<processor_use> out(ranks.size());
  auto const problem = detail::doctor::problem_of_all(before, after, ranks);
  std::vector<std::uint64_t> job;
  for (auto const& each : ranks) job.push_back(each.process);
  detail::doctor::sort_without_repetition(job);
  for (auto const& set : detail::doctor::ranks_that_share(ranks)) {
    auto const use = problem.empty() ? detail::doctor::use_by_others(before, after, set, job)
                                     : processor_use{.others = reading<double>::unknown(problem),
                                                     .cpus = set.cpus.size()};
    for (auto const rank : set.ranks) out[rank] = use;
  }
  return out;
}

}  // namespace plait::ext
