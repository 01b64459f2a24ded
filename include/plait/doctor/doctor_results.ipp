// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/doctor/doctor_results.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <map>
#include <span>
#include <utility>

#include "plait/core/concat.hpp"
#include "plait/core/file.hpp"
#include "plait/core/quote.hpp"
#include "plait/doctor/compare_machines.hpp"
#include "plait/doctor/link_picture.hpp"
#include "plait/doctor/machine_file.hpp"
#include "plait/doctor/rule_parts.hpp"
#include "plait/doctor/system_files.hpp"
#include "plait/doctor/turns.hpp"
#include "plait/mesh/hosts.hpp"
#include "plait/version.hpp"

namespace plait::detail::doctor {

namespace report {

inline std::string decimal(double value) {
  char out[32];
  std::snprintf(out, sizeof out, "%.3f", value);
  return out;
}

/// Returns a number with three digits and the prefix of a unit: "66.2 G", to which the caller
/// appends the unit.
inline std::string with_prefix(double value) {
  static constexpr std::pair<double, char const*> prefixes[]{{1e15, "P"}, {1e12, "T"}, {1e9, "G"},
                                                             {1e6, "M"},  {1e3, "k"},  {1, ""},
                                                             {1e-3, "m"}, {1e-6, "u"}, {1e-9, "n"}};
  for (auto const& [scale, prefix] : prefixes)
    if (value >= scale || scale == 1e-9) {
      char out[40];
      double const scaled = value / scale;
      std::snprintf(out, sizeof out,
                    scaled < 9.995   ? "%.2f %s"
                    : scaled < 99.95 ? "%.1f %s"
                                     : "%.0f %s",
                    scaled, prefix);
      return out;
    }
  return "0 ";
}

inline std::string count_of(std::size_t count, std::string_view noun) {
  return concat({count, " ", noun, count == 1 ? "" : "s"});
}

}  // namespace report

namespace text_files {

/// Reads a text of at most 1 MiB.
inline std::string read(std::string const& path, std::string_view kind) {
  open_file const file(path, kind);
  constexpr std::size_t most = std::size_t{1} << 20;
  if (file.size() > most)
    file.name().refuse(concat({"has ", file.size(), " bytes; at most ", most, " are allowed"}));
  std::string text(file.size(), '\0');
  file.read(std::as_writable_bytes(std::span(text)), 0);
  return text;
}

inline void write(std::string const& path, std::string_view kind, std::string const& text) {
  partial_file file(path, kind);
  file.write(std::as_bytes(std::span(text)), 0);
  file.commit();
}

/// Joins the lines of a message into one line.
inline std::string in_one_line(std::string_view text) {
  std::string out;
  for (auto rest = text; !rest.empty();) {
    auto const line = without_blanks(take_until(rest, '\n'));
    if (line.empty()) continue;
    if (!out.empty()) out += out.back() == ':' || out.back() == ';' ? " " : "; ";
    out += line;
  }
  return out;
}

}  // namespace text_files

PLAIT_DECL doctor_files read_files(ext::doctor_options const& options, doctor_results& into) {
  doctor_files out;
  try {
    if (!options.products.empty()) {
      out.products = text_files::read(options.products, "list of products");
      (void)ext::product_shapes_of(out.products, options.products);
    }
    if (!options.compare.empty()) into.earlier = ext::read_machine(options.compare);
    for (auto const& path : {options.store, options.svg}) {
      if (path.empty()) continue;
      auto const slash = path.find_last_of('/');
      std::string const folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
      struct stat status{};
      if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
        throw input_error(
            {"cannot write ", path_in_quotes(path), ": it exists and is not a regular file"});
      if (::access(folder.c_str(), W_OK) != 0)
        throw input_error({"cannot write ", path_in_quotes(path), ": the folder ",
                           path_in_quotes(folder), " does not exist or is not writable"});
    }
  } catch (std::exception const& problem) {
    out.problem = problem.what();
    if (out.problem.empty()) out.problem = "unknown error";
  }
  return out;
}

PLAIT_DECL void describe(doctor_results& of, ext::doctor_options const& options,
                         std::string_view backend) {
  auto& machine = of.of;
  auto const& root = of.settings.front();
  machine.name = options.name.empty() ? root.host : options.name;
  machine.backend = backend;
  char date[32] = "";
  std::time_t const now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  (void)std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &parts);
  machine.date = date;
  auto const add = [](auto& list, std::string name, reading<std::string> const& value) {
    if (value.is_known() && value.value() != "none" && !value.value().empty())
      list.push_back({std::move(name), value.value()});
  };
  for (auto const& [name, value] : {std::pair{"plait", &root.plait},
                                    {"compiler", &root.build},
                                    {"blas", &root.blas},
                                    {"blas_code", &root.blas_code},
                                    {"mpi", &root.mpi},
                                    {"nccl", &root.nccl},
                                    {"cuda", &root.cuda},
                                    {"driver", &root.driver},
                                    {"processor", &root.processor}})
    add(machine.versions, name, *value);
  if (root.governors.is_known()) {
    std::string all;
    for (auto const& one : root.governors.value()) all += concat({all.empty() ? "" : ", ", one});
    add(machine.settings, "governor", all);
  }
  if (root.blas_threads.is_known())
    add(machine.settings, "blas_threads", concat({root.blas_threads.value()}));
  if (root.quota.is_known() && std::isfinite(root.quota.value().cpus))
    add(machine.settings, "cpu_quota", report::decimal(root.quota.value().cpus));

  of.job.hosts.clear();
  of.job.cpus.clear();
  for (auto const& one : of.settings) {
    of.job.hosts.push_back(one.host);
    auto& cpus = of.job.cpus.emplace_back();
    if (one.cpus.is_known()) cpus.assign(one.cpus.value().begin(), one.cpus.value().end());
    machine.ranks.push_back({.host = one.host, .cpus = cpus});
  }
  for (auto const& ranks : by_host(of.settings)) {
    ext::machine::host host{.name = ranks.front()->host};
    std::vector<std::size_t> cpus;
    for (auto const* const one : ranks) {
      auto const& own = of.job.cpus[std::size_t(one->rank)];
      cpus.insert(cpus.end(), own.begin(), own.end());
      if (one->memory_bytes.is_known()) host.memory_bytes = one->memory_bytes.value();
    }
    std::sort(cpus.begin(), cpus.end());
    cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
    host.devices = root.uses_gpu ? ranks.size() : std::max(cpus.size(), ranks.size());
    host.device_memory_bytes = ranks.front()->device_memory_bytes;
    if (host.device_memory_bytes == 0)
      host.device_memory_bytes = std::max<std::uint64_t>(1, host.memory_bytes / host.devices);
    machine.hosts.push_back(std::move(host));
  }
}

namespace links {

/// Calls each(latency, bandwidth) for each measured pair of one kind: within a host, or between
/// hosts.
template <class Each>
void of_kind(std::vector<std::string> const& hosts, bool same_host,
             ext::machine::link_matrix const& latencies,
             ext::machine::link_matrix const& bandwidths, Each each) {
  for (std::size_t i = 0; i < latencies.size(); ++i)
    for (std::size_t j = 0; j < latencies.size(); ++j)
      if (i != j && latencies[i][j] > 0 && bandwidths[i][j] > 0 &&
          (hosts[i] == hosts[j]) == same_host)
        each(latencies[i][j], bandwidths[i][j]);
}

/// Returns the median link of a kind. Its bandwidth is the median of the pairs that were measured
/// while no other pair sent. If the median while all pairs send is 1 / k of it, k ranks share the
/// link. For example, pairs have 10 GB/s alone and 5 GB/s together: 2 ranks share 10 GB/s.
inline std::optional<ext::machine_link> median_link(std::vector<std::string> const& hosts,
                                                    bool same_host, ext::measured_links const& of) {
  std::vector<double> latencies, together, alone;
  of_kind(hosts, same_host, of.latency_seconds, of.bytes_per_second,
          [&](double latency, double bandwidth) {
            latencies.push_back(latency);
            together.push_back(bandwidth);
          });
  if (latencies.empty()) return std::nullopt;
  of_kind(hosts, same_host, of.latency_alone_seconds, of.bytes_alone_per_second,
          [&](double, double bandwidth) { alone.push_back(bandwidth); });
  double const shared = median_of(together);
  double const best = alone.empty() ? shared : std::max(shared, median_of(alone));
  std::map<std::string, int> counts;
  for (auto const& host : hosts) ++counts[host];
  int most = 1;
  for (auto const& [host, count] : counts) most = std::max(most, count);
  return ext::machine_link{
      median_of(latencies), best,
      static_cast<std::size_t>(std::clamp(static_cast<int>(std::lround(best / shared)), 1, most))};
}

}  // namespace links

PLAIT_DECL void summarize(doctor_results& of, bool is_quiet) {
  auto& machine = of.of;
  machine.quiet = is_quiet;
  auto const& hosts = of.job.hosts;
  machine.link_latency_seconds = of.job.links.latency_seconds;
  machine.link_bytes_per_second = of.job.links.bytes_per_second;
  machine.link_within_host = links::median_link(hosts, true, of.job.links);
  machine.link_between_hosts = links::median_link(hosts, false, of.job.links);
  std::vector<std::vector<double>> relative(machine.ranks.size());
  for (auto const& work : of.job.work) {
    if (!work.name.starts_with("products")) continue;
    double const median = median_of(work.together);
    for (std::size_t i = 0; i < work.together.size(); ++i)
      relative[i].push_back(work.together[i] / median);
  }
  for (std::size_t i = 0; i < relative.size(); ++i)
    if (!relative[i].empty()) machine.ranks[i].speed = median_of(relative[i]);
}

PLAIT_DECL std::vector<int> numbers_on_hosts(std::vector<std::string> const& hosts) {
  std::map<std::string, int> counts;
  std::vector<int> out;
  for (auto const& host : hosts) out.push_back(counts[host]++);
  return out;
}

PLAIT_DECL int ranks_of_each_host(std::vector<std::string> const& hosts) {
  std::size_t each = 0;
  while (each < hosts.size() && hosts[each] == hosts[0]) ++each;
  if (each < 2 || each == hosts.size() || hosts.size() % each != 0) return 0;
  for (std::size_t i = 0; i < hosts.size(); ++i)
    if (hosts[i] != hosts[i / each * each]) return 0;
  if (host_map(hosts).names().size() != hosts.size() / each) return 0;
  return static_cast<int>(each);
}

PLAIT_DECL std::vector<std::pair<int, int>> usual_pairs(std::vector<std::string> const& hosts) {
  std::vector<std::pair<int, int>> within, between;
  auto const ranks = static_cast<int>(hosts.size());
  for (int i = 0; i < ranks; ++i)
    for (int j = i + 1; j < ranks; ++j) {
      auto& list = hosts[std::size_t(i)] == hosts[std::size_t(j)] ? within : between;
      if (list.size() < 3) list.emplace_back(i, j);
    }
  within.insert(within.end(), between.begin(), between.end());
  return within;
}

PLAIT_DECL bool has_too_few_processors(std::vector<ext::host_settings> const& all) {
  if (all.front().uses_gpu) return false;
  for (auto const& ranks : by_host(all)) {
    std::vector<int> cpus;
    for (auto const* const one : ranks) {
      if (!one->cpus.is_known()) return true;
      cpus.insert(cpus.end(), one->cpus.value().begin(), one->cpus.value().end());
    }
    std::sort(cpus.begin(), cpus.end());
    auto const end = std::unique(cpus.begin(), cpus.end());
    if (static_cast<std::size_t>(end - cpus.begin()) < ranks.size()) return true;
  }
  return false;
}

PLAIT_DECL void require_room(std::vector<ext::product_shape> const& of,
                             std::vector<ext::host_settings> const& all) {
  for (auto const& ranks : by_host(all)) {
    auto const& first = *ranks.front();
    if (!first.memory_bytes.is_known()) continue;
    for (auto const& one : of) {
      // Elements have up to 8 bytes.
      double const rows = double(one.rows), columns = double(one.columns),
                   inner = double(one.inner);
      double const needed =
          8 * double(ranks.size()) * (rows * columns + rows * inner + inner * columns);
      if (needed <= double(first.memory_bytes.value()) / 2) continue;
      throw usage_error({"the product ", one.rows, " x ", one.columns, " x ", one.inner, " needs ",
                         needed < 1e18 ? bytes_text(std::uint64_t(needed))
                                       : concat({report::with_prefix(needed), "B"}),
                         " of memory for the ", report::count_of(ranks.size(), "rank"), " of host ",
                         first.host, "; at most half of the host's ",
                         bytes_text(first.memory_bytes.value()),
                         " may be used; leave it out, or start fewer ranks"});
    }
  }
}

PLAIT_DECL std::uint64_t stated_blas_threads() {
  for (char const* const name : {"OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS"})
    if (char const* const text = std::getenv(name); text != nullptr)
      if (auto const number = whole_number(text); number && *number > 0) return *number;
  return 1;
}

PLAIT_DECL ext::finding not_measured(std::string what_and_why) {
  ext::finding out;
  out.id = "not-measured";
  out.measured = std::move(what_and_why);
  return out;
}

PLAIT_DECL ext::finding rank_missing(int rank, bool is_missing, std::string const& problem,
                                     std::string_view while_doing) {
  ext::finding out;
  out.id = "rank-missing";
  out.severity = ext::finding_severity::fails;
  out.ranks = {rank};
  out.measured = concat({while_doing, ": ", text_files::in_one_line(problem)});
  if (is_missing)
    out.what_to_do = concat({"look at the last messages of rank ", rank,
                             "; start as many processes as the job has ranks"});
  return out;
}

PLAIT_DECL int rank_awaited_in(std::string_view problem) {
  // The words of the backends' messages about a rank that does not come.
  for (auto const& [before, after] :
       {std::pair<std::string_view, std::string_view>{" for rank ", " "},
        {"rank ", " has not come"}})
    for (auto at = problem.find(before); at != std::string_view::npos;
         at = problem.find(before, at + 1)) {
      auto const rest = problem.substr(at + before.size());
      auto const digits = rest.substr(0, rest.find_first_not_of("0123456789"));
      auto const number = whole_number(digits);
      if (number && *number < 1'000'000 && rest.substr(digits.size()).starts_with(after))
        return static_cast<int>(*number);
    }
  return -1;
}

namespace report {

inline void line(std::string& out, std::string_view head, std::string const& text) {
  std::string padded(head);
  padded.resize(std::max<std::size_t>(padded.size(), 22), ' ');
  out += concat({"  ", padded, " ", text, "\n"});
}

/// Returns the speed of the fastest measured product of a type.
inline double best_product(ext::machine::element_type const& type) {
  double best = 0;
  for (auto const& one : type.products) best = std::max(best, one.flop_per_second);
  return best;
}

inline void measured(std::string& out, ext::machine const& of) {
  for (auto const& type : of.element_types) {
    if (!type.products.empty()) {
      line(out, concat({"products of ", type.name}),
           concat({"up to ", with_prefix(best_product(type)), "FLOP/s on each rank, ",
                   type.products.size(), " shapes"}));
      std::string heads;
      for (auto const& one : type.attentions)
        heads += concat({heads.empty() ? "" : ", ", with_prefix(one.flop_per_second),
                         "FLOP/s with heads of width ", one.head_width});
      if (!heads.empty()) line(out, "  attention", heads);
    }
    if (type.row_bytes_per_second)
      line(out,
           concat({type.products.empty() ? "layers of " : "  row-wise layers",
                   type.products.empty() ? type.name : ""}),
           concat({with_prefix(*type.row_bytes_per_second), "B/s; the optimizer ",
                   with_prefix(type.optimizer_bytes_per_second.value_or(0)), "B/s",
                   type.seconds_per_operation
                       ? concat({"; the start of an operation ",
                                 with_prefix(*type.seconds_per_operation), "s"})
                       : std::string()}));
  }
  if (of.memory_bytes_per_second)
    line(out, "copies",
         concat({with_prefix(*of.memory_bytes_per_second), "B/s read and written by a rank"}));
  auto const link = [&](char const* name, std::optional<ext::machine_link> const& of_kind) {
    if (!of_kind) return;
    line(out, name,
         concat({with_prefix(of_kind->latency_seconds), "s, ",
                 with_prefix(of_kind->bytes_per_second), "B/s",
                 of_kind->shared_by > 1 ? concat({", shared by ", of_kind->shared_by, " ranks"})
                                        : std::string()}));
  };
  link("links within a host", of.link_within_host);
  link("links between hosts", of.link_between_hosts);
  for (auto const& one : of.collectives) {
    if (one.kind != collective::all_reduce) continue;
    line(out, concat({"all_reduce, ", one.ranks, " ranks"}),
         concat({with_prefix(one.times.front().seconds), "s for ",
                 bytes_text(one.times.front().bytes), ", ", with_prefix(one.times.back().seconds),
                 "s for ", bytes_text(one.times.back().bytes),
                 one.over == ext::rank_group::world  ? ""
                 : one.over == ext::rank_group::host ? ", on each host"
                                                     : ", one rank of each host"}));
  }
}

}  // namespace report

PLAIT_DECL std::string report_text(doctor_results const& of, ext::doctor_options const& options,
                                   int code) {
  std::string out =
      concat({"plait-doctor: ", of.of.name, ", ", report::count_of(of.settings.size(), "rank"),
              " on ", report::count_of(host_map(of.job.hosts).names().size(), "host"), ", ",
              of.of.backend, ", ", static_cast<int>(std::lround(of.seconds)), " s"});
  if (of.settings.front().build.is_known() &&
      of.settings.front().build.value().find("-O0") != std::string::npos)
    out += ", compiled without optimisation";
  bool const measured = !of.of.element_types.empty() || !of.of.link_latency_seconds.empty() ||
                        of.of.memory_bytes_per_second;
  if (measured && !of.of.quiet) out += ", not quiet: speeds were not judged";
  out += "\n";
  report::measured(out, of.of);
  if (of.settings.size() > 2 && !of.of.link_latency_seconds.empty()) out += ext::link_digits(of.of);
  if (of.earlier) {
    out += concat(
        {"Compared with ", path_in_quotes(options.compare), " of ", of.earlier->date, ":\n"});
    out += ext::to_text(ext::compare_machines(*of.earlier, of.of));
  }
  std::size_t notes = 0;
  for (auto const severity :
       {ext::finding_severity::fails, ext::finding_severity::slow, ext::finding_severity::note})
    for (auto const& one : of.findings)
      if (one.severity == severity) {
        out += concat({to_string(severity), ": [", one.id, "] ", one.text(), "\n"});
        if (severity == ext::finding_severity::note) ++notes;
      }
  std::size_t const found = of.findings.size() - notes;
  out += concat({found == 0 ? std::string("nothing found") : report::count_of(found, "finding"),
                 notes == 0 ? std::string() : concat({", ", report::count_of(notes, "note")}),
                 "; exit code ", code, "\n"});
  return out;
}

PLAIT_DECL std::string report_json(doctor_results const& of, int code) {
  std::string out = concat({"{\"exit_code\": ", code,
                            ", \"seconds\": ", report::decimal(of.seconds), ",\n\"findings\": ["});
  for (auto const& one : of.findings)
    out += concat({&one == of.findings.data() ? "\n" : ",\n", one.json()});
  out += "]";
  if (!of.of.hosts.empty()) {
    std::string machine = text_of_machine(of.of, file_name("machine", "of this job"));
    while (!machine.empty() && machine.back() == '\n') machine.pop_back();
    out += concat({",\n\"machine\": ", machine});
  }
  out += "}\n";
  return out;
}

PLAIT_DECL void write_files(doctor_results const& of, ext::doctor_options const& options) {
  try {
    if (!options.store.empty()) ext::write_machine(options.store, of.of);
    if (!options.svg.empty())
      text_files::write(options.svg, "picture", ext::link_svg(of.of, of.findings));
  } catch (std::exception const& problem) {
    throw usage_error({problem.what()});
  }
}

}  // namespace plait::detail::doctor
