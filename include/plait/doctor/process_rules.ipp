// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/doctor/process_rules.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"
#include "plait/doctor/rule_parts.hpp"
#include "plait/mesh/ranks_text.hpp"

namespace plait::detail::doctor {

// Returns the interface that a rank uses; null if it is unknown, with the reason in `problem`.
PLAIT_DECL network_interface const* used_interface(host_settings const& of, std::string& problem) {
  problem = of.interface.problem();
  if (!of.interface.is_known()) return nullptr;
  problem = of.interfaces.problem();
  if (!of.interfaces.is_known()) return nullptr;
  auto const& all = of.interfaces.value();
  auto const found = std::find_if(
      all.begin(), all.end(), [&](auto const& each) { return each.name == of.interface.value(); });
  if (found != all.end()) return &*found;
  problem = concat({"the host has no interface ", in_quotes(of.interface.value())});
  return nullptr;
}

PLAIT_DECL bool are_on_several_hosts(all_settings const& all) {
  return std::any_of(all.begin(), all.end(),
                     [&](auto const& each) { return each.host != all.front().host; });
}

// Returns the number of different processes; ranks of one process are its threads.
PLAIT_DECL std::size_t processes_of(std::vector<host_settings const*> const& ranks) {
  std::vector<std::uint64_t> out;
  for (auto const* const each : ranks) out.push_back(each->process);
  std::sort(out.begin(), out.end());
  return static_cast<std::size_t>(std::unique(out.begin(), out.end()) - out.begin());
}

// Compares a property of the interfaces that ranks use, if the ranks are on several hosts.
PLAIT_DECL std::vector<finding> unlike_interfaces(
    all_settings const& all, std::string_view id, std::string_view what,
    std::string_view what_to_do,
    function_reference<reading<std::string>(network_interface const&)> value) {
  // The processes of one host communicate through its memory or its loopback interface.
  if (!are_on_several_hosts(all)) return {};
  return unlike(all, id, what, {.what_to_do = std::string(what_to_do)},
                [&](host_settings const& of) {
                  std::string problem;
                  auto const* const used = used_interface(of, problem);
                  return used == nullptr ? reading<std::string>::unknown(problem) : value(*used);
                });
}

}  // namespace plait::detail::doctor

namespace plait::ext::setting_rules {

PLAIT_DECL std::vector<finding> unlike_plait(std::vector<host_settings> const& all) {
  return detail::doctor::unlike(
      all, "unlike-plait", "version of plait",
      {.what_to_do = "build the program once, and start that file on all hosts",
       .severity = finding_severity::fails},
      [](host_settings const& of) { return of.plait; });
}

PLAIT_DECL std::vector<finding> unlike_build(std::vector<host_settings> const& all) {
  return detail::doctor::unlike(
      all, "unlike-build", "compiler and its flags",
      {.what_to_do = "build the program once, and start that file on all hosts, so that all ranks "
                     "compute the same bits"},
      [](host_settings const& of) { return of.build; });
}

PLAIT_DECL std::vector<finding> unlike_blas(std::vector<host_settings> const& all) {
  auto out = detail::doctor::unlike(
      all, "unlike-blas", "library of matrix products",
      {.what_to_do = "install one version on all hosts, so that all ranks compute the same bits"},
      [](host_settings const& of) { return of.blas; });
  // One library may choose different code on different processors. If no rank knows its code, the
  // rule blas_code says so.
  bool const is_known = std::any_of(all.begin(), all.end(),
                                    [](auto const& each) { return each.blas_code.is_known(); });
  if (is_known)
    detail::doctor::append(
        out, detail::doctor::unlike(all, "unlike-blas", "code of matrix products",
                                    {.what_to_do = "set one OPENBLAS_CORETYPE on all hosts, so "
                                                   "that all ranks compute the same bits"},
                                    [](host_settings const& of) { return of.blas_code; }));
  return out;
}

PLAIT_DECL std::vector<finding> unlike_mpi(std::vector<host_settings> const& all) {
  return detail::doctor::unlike(
      all, "unlike-mpi", "version of MPI",
      {.what_to_do = "install one version on all hosts", .severity = finding_severity::fails},
      [](host_settings const& of) { return of.mpi; });
}

PLAIT_DECL std::vector<finding> unlike_nccl(std::vector<host_settings> const& all) {
  return detail::doctor::unlike(
      all, "unlike-nccl", "version of NCCL",
      {.what_to_do = "install one version on all hosts", .severity = finding_severity::fails},
      [](host_settings const& of) { return of.nccl; });
}

PLAIT_DECL std::vector<finding> unlike_cuda(std::vector<host_settings> const& all) {
  return detail::doctor::unlike(all, "unlike-cuda", "version of CUDA",
                                {.what_to_do = "install one version on all hosts"},
                                [](host_settings const& of) { return of.cuda; });
}

PLAIT_DECL std::vector<finding> unlike_driver(std::vector<host_settings> const& all) {
  return detail::doctor::unlike(
      all, "unlike-driver", "version of NVIDIA's driver",
      {.what_to_do = "install one version on all hosts"}, [](host_settings const& of) {
        return of.uses_gpu && of.gpu.is_known() && of.gpu.value().driver.is_known()
                   ? of.gpu.value().driver
                   : of.driver;
      });
}

PLAIT_DECL std::vector<finding> unlike_clock(std::vector<host_settings> const& all) {
  auto out = detail::doctor::of_each_rank(all, "unlike-clock", [](host_settings const& of) {
    if (!of.clock_s.is_known())
      return detail::doctor::finding_words::unread("clock of the host", of.clock_s.problem());
    if (std::isfinite(of.clock_s.value())) return detail::doctor::finding_words{};
    return detail::doctor::finding_words::unread("clock of the host", "it is not a finite number");
  });
  struct host_clock {
    std::vector<host_settings const*> of;
    double seconds = 0;
  };
  std::vector<host_clock> hosts;
  for (auto const& ranks : detail::doctor::by_host(all)) {
    host_clock each;
    for (auto const* const of : ranks)
      if (of->clock_s.is_known() && std::isfinite(of->clock_s.value())) {
        if (each.of.empty()) each.seconds = of->clock_s.value();
        each.of.push_back(of);
      }
    if (!each.of.empty()) hosts.push_back(std::move(each));
  }
  if (hosts.empty()) return out;
  std::vector<double> sorted;
  for (auto const& each : hosts) sorted.push_back(each.seconds);
  std::sort(sorted.begin(), sorted.end());
  double const median = sorted[(sorted.size() - 1) / 2];
  for (auto const& each : hosts) {
    double const ahead = each.seconds - median;
    if (std::abs(ahead) <= 1) continue;
    char text[48];
    std::snprintf(text, sizeof text, "%.3g s %s", std::abs(ahead), ahead > 0 ? "fast" : "slow");
    out.push_back(detail::doctor::about(
        each.of, "unlike-clock",
        {.measured = concat({"the host's clock is ", text}),
         .expected = "within 1 s of the other hosts",
         .what_to_do = "let NTP or chrony set the clocks; certificates and logs need the time",
         .severity = finding_severity::note}));
  }
  return out;
}

PLAIT_DECL std::vector<finding> shared_memory(std::vector<host_settings> const& all) {
  constexpr std::uint64_t for_each_process = std::uint64_t{16} * 1024 * 1024;
  auto const hosts = detail::doctor::by_host(all);
  return detail::doctor::of_each_rank(all, "shared-memory", [&](host_settings const& of) {
    if (!of.shared_memory.is_known())
      return detail::doctor::finding_words::unread("space of /dev/shm", of.shared_memory.problem());
    auto const here = std::find_if(hosts.begin(), hosts.end(),
                                   [&](auto const& each) { return each[0]->host == of.host; });
    auto const processes = detail::doctor::processes_of(*here);
    auto const needed = for_each_process * processes;
    auto const& space = of.shared_memory.value();
    if (processes == 1 || space.free_bytes >= needed) return detail::doctor::finding_words{};
    return detail::doctor::finding_words{
        .measured =
            concat({"/dev/shm has ", detail::doctor::bytes_text(space.free_bytes), " free of ",
                    detail::doctor::bytes_text(space.bytes), " for ", processes, " processes"}),
        .expected = concat({"at least ", detail::doctor::bytes_text(needed)}),
        .what_to_do =
            "start the container with more, for example `docker run --shm-size=1g`, or "
            "remove files that ended jobs left in /dev/shm",
        .severity = finding_severity::fails};
  });
}

PLAIT_DECL std::vector<finding> loopback(std::vector<host_settings> const& all) {
  if (!detail::doctor::are_on_several_hosts(all)) return {};
  return detail::doctor::of_each_rank(all, "loopback", [](host_settings const& of) {
    std::string problem;
    auto const* const used = detail::doctor::used_interface(of, problem);
    if (used == nullptr)
      return detail::doctor::finding_words::unread("interface of the job", problem);
    if (!used->is_loopback) return detail::doctor::finding_words{};
    return detail::doctor::finding_words{
        .measured = concat({"the job uses the loopback interface ", detail::in_quotes(used->name)}),
        .expected = "an interface that other hosts can reach",
        .what_to_do =
            "name one, for example by GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME, and see "
            "that /etc/hosts does not map the host's name to 127.0.0.1",
        .severity = finding_severity::fails};
  });
}

PLAIT_DECL std::vector<finding> unlike_mtu(std::vector<host_settings> const& all) {
  return detail::doctor::unlike_interfaces(
      all, "unlike-mtu", "size of packets (MTU)",
      "set one MTU on all hosts and switches, for example `ip link set dev eth0 mtu 9000`",
      [](network_interface const& of) {
        if (!of.mtu_bytes.is_known()) return reading<std::string>::unknown(of.mtu_bytes.problem());
        return reading<std::string>(concat({of.mtu_bytes.value(), " bytes"}));
      });
}

PLAIT_DECL std::vector<finding> unlike_speed(std::vector<host_settings> const& all) {
  return detail::doctor::unlike_interfaces(
      all, "unlike-speed", "speed of the network interface",
      "check cable, port and the interface that the job uses; the slowest host limits all",
      [](network_interface const& of) {
        if (!of.megabits.is_known()) return reading<std::string>::unknown(of.megabits.problem());
        return reading<std::string>(concat({of.megabits.value(), " Mbit/s"}));
      });
}

PLAIT_DECL std::vector<finding> open_files(std::vector<host_settings> const& all) {
  std::size_t processes = 0;
  for (auto const& ranks : detail::doctor::by_host(all))
    processes += detail::doctor::processes_of(ranks);
  std::uint64_t const needed = 128 + 8 * processes;
  return detail::doctor::of_each_rank(all, "open-files", [&](host_settings const& of) {
    if (!of.most_open_files.is_known())
      return detail::doctor::finding_words::unread("limit of open files",
                                                   of.most_open_files.problem());
    if (of.most_open_files.value() >= needed) return detail::doctor::finding_words{};
    return detail::doctor::finding_words{
        .measured = concat({"the process may open ", of.most_open_files.value(), " files"}),
        .expected = concat({"at least ", needed, " for ", processes, " processes"}),
        .what_to_do = "raise the limit, for example `ulimit -n 65536`",
        .severity = finding_severity::fails};
  });
}

PLAIT_DECL std::vector<finding> locked_memory(std::vector<host_settings> const& all) {
  return detail::doctor::of_each_rank(all, "locked-memory", [](host_settings const& of) {
    constexpr auto what = "limit of locked memory";
    if (!of.rdma_devices.is_known())
      return detail::doctor::finding_words::unread(what, of.rdma_devices.problem());
    if (of.rdma_devices.value().empty()) return detail::doctor::finding_words{};
    if (!of.most_locked_bytes.is_known())
      return detail::doctor::finding_words::unread(what, of.most_locked_bytes.problem());
    if (of.most_locked_bytes.value() == no_limit) return detail::doctor::finding_words{};
    return detail::doctor::finding_words{
        .measured = concat({"the process may lock ",
                            detail::doctor::bytes_text(of.most_locked_bytes.value()),
                            " of memory, and the host has the RDMA device ",
                            detail::in_quotes(of.rdma_devices.value().front())}),
        .expected = "no limit",
        .what_to_do = "set `ulimit -l unlimited`, also in the systemd unit of the job manager",
        .severity = finding_severity::fails};
  });
}

}  // namespace plait::ext::setting_rules
