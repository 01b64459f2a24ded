// SPDX-License-Identifier: Apache-2.0
// test: libs=doctor
// Compares docs/doctor.md with the program: its options, its findings, and an example of each
// finding. The examples are sentences of rules about planted settings and measurements. With
// PLAIT_PRINT_DOCTOR_PAGE=1 the test prints all examples, so that the page can be written again.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "doctor/planted_tree.hpp"
#include "plait/doctor/activity_rules.hpp"
#include "plait/doctor/doctor_options.hpp"
#include "plait/doctor/doctor_results.hpp"
#include "plait/doctor/setting_rules.hpp"
#include "plait/doctor/speed_rules.hpp"

namespace {

namespace rules = plait::ext::setting_rules;
using plait::ext::finding;
using plait::ext::host_settings;
using plait::ext::measured_job;
using settings = std::vector<host_settings>;

/// A finding as an example on the page.
struct example {
  std::string id;
  std::vector<finding> found;
};

constexpr std::uint64_t mib = 1024 * 1024;

/// Four ranks on the hosts a and b, with a GPU for each rank and without faults.
settings healthy_settings() {
  static planted::tree const tree;
  settings out;
  for (int rank = 0; rank < 4; ++rank) {
    out.push_back(planted::read(tree, rank, rank < 2 ? "a" : "b"));
    auto& of = out.back();
    of.mpi = std::string("Open MPI v5.0.3");
    of.nccl = std::string("2.21.5");
    of.cuda = std::string("12.4");
    of.uses_gpu = true;
    plait::ext::gpu_settings gpu{.uuid = "GPU-" + std::to_string(rank),
                                 .bus = rank % 2 == 0 ? "0000:3b:00.0" : "0000:d8:00.0"};
    gpu.name = std::string("NVIDIA H200");
    gpu.driver = std::string("550.54.14");
    gpu.lanes = gpu.most_lanes = std::uint64_t{16};
    gpu.generation = gpu.most_generation = std::uint64_t{5};
    gpu.clock_causes = gpu.corrected_errors = gpu.uncorrected_errors = std::uint64_t{0};
    gpu.is_cut = std::uint64_t{0};
    gpu.is_persistent = std::uint64_t{1};
    gpu.processes = std::vector<plait::ext::gpu_process>{};
    gpu.peers = std::vector<plait::ext::gpu_peer>{
        {.uuid = "GPU-" + std::to_string(rank ^ 1), .status = std::uint64_t{0}}};
    of.gpu = gpu;
  }
  return out;
}

/// A fault of rank 3, which the rule of the same name finds.
struct fault {
  char const* id;
  std::vector<finding> (*rule)(settings const&);
  void (*plant)(settings&);
};

// Each fault is about the last rank, or about both ranks of the host b.
fault const faults[]{
    {"blas-code", rules::blas_code,
     [](settings& all) { all[3].blas_code = std::string("Prescott"); }},
    {"blas-threads", rules::blas_threads,
     [](settings& all) { all[2].blas_threads = all[3].blas_threads = std::uint64_t{4}; }},
    {"shared-cpu", rules::shared_cpu,
     [](settings& all) { all[2].cpus = all[3].cpus = std::vector{0}; }},
    {"throttled", rules::throttled,
     [](settings& all) {
       all[3].quota = plait::ext::cpu_quota{.cpus = 2,
                                            .group = "/sys/fs/cgroup/job",
                                            .periods = std::uint64_t{100},
                                            .throttled_periods = std::uint64_t{30}};
     }},
    {"governor", rules::governor,
     [](settings& all) {
       all[2].governors = all[3].governors = std::vector<std::string>{"'powersave'"};
     }},
    {"steal-time", rules::steal_time,
     [](settings& all) {
       for (auto const rank : {2, 3}) {
         all[std::size_t(rank)].ticks = std::uint64_t{1000};
         all[std::size_t(rank)].stolen_ticks = std::uint64_t{100};
       }
     }},
    {"swap", rules::swap, [](settings& all) { all[3].own_swap_bytes = 2 * mib; }},
    {"numa-memory", rules::numa_memory,
     [](settings& all) {
       all[3].cpus = std::vector{0, 1};
       all[3].bytes_on_node = std::vector<std::uint64_t>{100 * mib, 300 * mib};
     }},
    {"memory-limit", rules::memory_limit,
     [](settings& all) { all[2].memory_limit_bytes = all[3].memory_limit_bytes = 8192 * mib; }},
    {"unlike-plait", rules::unlike_plait,
     [](settings& all) { all[3].plait = std::string("0.0.9"); }},
    {"unlike-build", rules::unlike_build,
     [](settings& all) { all[3].build = std::string("GNU 13.2.0, -O"); }},
    {"unlike-blas", rules::unlike_blas,
     [](settings& all) { all[3].blas = std::string("OpenBLAS 0.3.21"); }},
    {"unlike-mpi", rules::unlike_mpi,
     [](settings& all) { all[3].mpi = std::string("Open MPI v4.1.4"); }},
    {"unlike-nccl", rules::unlike_nccl, [](settings& all) { all[3].nccl = std::string("2.19.3"); }},
    {"unlike-cuda", rules::unlike_cuda, [](settings& all) { all[3].cuda = std::string("12.6"); }},
    {"unlike-driver", rules::unlike_driver,
     [](settings& all) { all[3].gpu.value().driver = std::string("535.183.01"); }},
    {"unlike-clock", rules::unlike_clock,
     [](settings& all) { all[2].clock_s = all[3].clock_s = 1e9 + 90; }},
    {"shared-memory", rules::shared_memory,
     [](settings& all) {
       for (auto const rank : {2, 3})
         all[std::size_t(rank)].shared_memory =
             plait::ext::file_system_space{.bytes = 64 * mib, .free_bytes = 10 * mib};
     }},
    {"loopback", rules::loopback, [](settings& all) { all[3].interface = std::string("lo"); }},
    {"unlike-mtu", rules::unlike_mtu,
     [](settings& all) {
       for (auto& each : all[3].interfaces.value()) each.mtu_bytes = std::uint64_t{1500};
     }},
    {"unlike-speed", rules::unlike_speed,
     [](settings& all) {
       for (auto& each : all[3].interfaces.value()) each.megabits = std::uint64_t{1000};
     }},
    {"open-files", rules::open_files,
     [](settings& all) { all[3].most_open_files = std::uint64_t{100}; }},
    {"locked-memory", rules::locked_memory,
     [](settings& all) { all[2].most_locked_bytes = all[3].most_locked_bytes = mib / 16; }},
    {"gpu-peers", rules::gpu_peers,
     [](settings& all) { all[2].gpu.value().peers.value()[0].status = std::uint64_t{3}; }},
    {"gpu-lanes", rules::gpu_lanes,
     [](settings& all) { all[3].gpu.value().lanes = std::uint64_t{8}; }},
    {"gpu-generation", rules::gpu_generation,
     [](settings& all) { all[3].gpu.value().generation = std::uint64_t{3}; }},
    {"gpu-clock", rules::gpu_clock,
     [](settings& all) {
       all[3].gpu.value().clock_causes = plait::ext::gpu_clock_causes::thermal_by_hardware;
     }},
    {"gpu-errors", rules::gpu_errors,
     [](settings& all) { all[3].gpu.value().uncorrected_errors = std::uint64_t{1}; }},
    {"gpu-instances", rules::gpu_instances,
     [](settings& all) { all[3].gpu.value().is_cut = std::uint64_t{1}; }},
    {"gpu-memory", rules::gpu_memory,
     [](settings& all) {
       all[3].gpu.value().processes =
           std::vector<plait::ext::gpu_process>{{.process = 4711, .bytes = 3072 * mib}};
     }},
    {"gpu-shared", rules::gpu_shared, [](settings& all) { all[3].gpu = all[2].gpu; }},
    {"gpu-persistence", rules::gpu_persistence,
     [](settings& all) { all[3].gpu.value().is_persistent = std::uint64_t{0}; }}};

/// Eight ranks on the hosts a, b and so on, without faults.
measured_job healthy_job(std::size_t hosts = 2) {
  auto const each_host = 8 / hosts;
  measured_job out;
  auto& [latency, rate, latency_alone, rate_alone] = out.links;
  for (auto* const each : {&latency, &rate, &latency_alone, &rate_alone})
    each->assign(8, std::vector<double>(8));
  for (std::size_t rank = 0; rank < 8; ++rank) {
    out.hosts.emplace_back(1, static_cast<char>('a' + rank / each_host));
    out.cpus.push_back({rank % each_host});
    out.turns.push_back({.median_seconds = 0.05, .longest_seconds = 0.06, .lost = 0.02});
    out.use.push_back({.others = 0.01, .cpus = 1});
    for (std::size_t other = 0; other < 8; ++other) {
      if (other == rank) continue;
      bool const is_within = rank / each_host == other / each_host;
      latency[rank][other] = is_within ? 5e-6 : 40e-6;
      rate[rank][other] = is_within ? 8e9 : 1.2e9;
    }
  }
  for (auto const* const name : {"products of float", "the optimizer", "copies"})
    out.work.push_back({.name = name,
                        .together = std::vector<double>(8, 6e10),
                        .alone = std::vector<double>(8, 6e10)});
  return out;
}

/// A fault in measurements, which a rule about speeds finds.
struct measured_fault {
  char const* id;
  void (*plant)(measured_job&);
};

// Makes the bandwidth of some pairs slow: `together` and, if measured again, `alone`.
void slow_down(measured_job& job, double together, double alone,
               bool (*which)(std::size_t from, std::size_t to)) {
  for (std::size_t from = 0; from < 8; ++from)
    for (std::size_t to = 0; to < 8; ++to) {
      if (from == to || !which(from, to)) continue;
      job.links.bytes_per_second[from][to] = together;
      job.links.bytes_alone_per_second[from][to] = alone;
      job.links.latency_alone_seconds[from][to] = job.links.latency_seconds[from][to];
    }
}

measured_fault const measured_faults[]{
    {"slow-rank",
     [](measured_job& job) {
       job.work[0].together[5] = job.work[0].alone[5] = 3.7e10;
       job.work[1].together[5] = job.work[1].alone[5] = 4.8e10;
     }},
    {"slow-together",
     [](measured_job& job) {
       for (std::size_t rank = 0; rank < 4; ++rank) job.work[0].alone[rank] = 1.5e11;
     }},
    {"slow-pair",
     [](measured_job& job) {
       slow_down(job, 3e8, 3.1e8, [](auto from, auto to) { return from == 2 && to == 5; });
     }},
    {"slow-host",
     [](measured_job& job) {
       job = healthy_job(4);
       slow_down(job, 3e8, 3.1e8,
                 [](auto from, auto to) { return (from / 2 == 1) != (to / 2 == 1); });
     }},
    {"shared-link",
     [](measured_job& job) {
       slow_down(job, 3e9, 7.9e9, [](auto from, auto to) { return from >= 4 && to >= 4; });
     }},
    {"unsteady",
     [](measured_job& job) {
       job.turns[6] = {.median_seconds = 0.05, .longest_seconds = 0.14, .lost = 0.11};
     }},
    {"busy-cpu", [](measured_job& job) {
       job.use[2] = {
           .others = 0.97,
           .cpus = 1,
           .processes = {{.number = 4711, .name = "stress", .cpus = 0.97, .last_cpu = 2}}};
       job.work[0].together[2] = 3.2e10;
     }}};

std::vector<finding> findings_of(measured_job const& job) {
  auto out = plait::ext::check_speeds(job);
  auto more = plait::ext::activity_rules::busy_cpu(job);
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

/// The findings of the program itself, which no rule makes.
std::vector<finding> findings_of_program() {
  auto missing = plait::detail::doctor::rank_missing(
      3, true,
      "gloo: rank 0: rank 3 has not come to rendezvous folder '/shared/job7' within 30000 ms",
      "while the ranks met");
  missing.host = "b";
  return {missing, plait::detail::doctor::not_measured(
                       "the backend has no messages between two ranks, so links between pairs of "
                       "ranks were not measured")};
}

/// Returns the report about four ranks on two hosts, two of which share a processor.
std::string example_of_report() {
  plait::detail::doctor::doctor_results of;
  of.settings = healthy_settings();
  of.settings[2].cpus = of.settings[3].cpus = std::vector{0};
  of.seconds = 14.2;
  of.findings = rules::shared_cpu(of.settings);
  of.settings[2].memory_limit_bytes = of.settings[3].memory_limit_bytes = 8192 * mib;
  for (auto const& each : rules::memory_limit(of.settings)) of.findings.push_back(each);

  auto& machine = of.of;
  machine.name = "cluster";
  machine.backend = "gloo";
  machine.quiet = true;
  for (auto const& each : of.settings) {
    of.job.hosts.push_back(each.host);
    machine.ranks.push_back({.host = each.host});
  }
  plait::ext::machine::element_type type{.name = "float"};
  type.products = {{{512, 512, 512}, 6.2e10}, {{4096, 4096, 4096}, 7.1e10}};
  type.attentions = {{64, 3.1e10}, {128, 4.4e10}};
  type.row_bytes_per_second = 5.1e9;
  type.optimizer_bytes_per_second = 1.2e10;
  type.seconds_per_operation = 6e-8;
  machine.element_types = {type};
  machine.memory_bytes_per_second = 1.1e10;
  machine.link_within_host = {.latency_seconds = 9e-6, .bytes_per_second = 4.1e9};
  machine.link_between_hosts = {.latency_seconds = 4.1e-5, .bytes_per_second = 1.18e9};
  machine.link_latency_seconds.assign(4, std::vector<double>(4));
  machine.link_bytes_per_second = machine.link_latency_seconds;
  for (std::size_t from = 0; from < 4; ++from)
    for (std::size_t to = 0; to < 4; ++to) {
      if (from == to) continue;
      bool const is_within = from / 2 == to / 2;
      machine.link_latency_seconds[from][to] = is_within ? 9e-6 : 4.1e-5;
      machine.link_bytes_per_second[from][to] = is_within ? from < 2 ? 4.1e9 : 2.2e9 : 1.18e9;
    }
  machine.collectives = {{.ranks = 4, .times = {{16, 1.1e-4}, {64 * mib, 0.13}}}};
  return plait::detail::doctor::report_text(of, {}, 1);
}

/// The findings of all rules about planted faults, in the order of the page.
std::vector<example> examples() {
  std::vector<example> out;
  for (auto const& each : faults) {
    auto all = healthy_settings();
    each.plant(all);
    out.push_back({each.id, each.rule(all)});
  }
  for (auto const& each : measured_faults) {
    auto job = healthy_job();
    each.plant(job);
    auto found = findings_of(job);
    std::erase_if(found, [&](finding const& of) { return of.id != each.id; });
    out.push_back({each.id, std::move(found)});
  }
  for (auto const& each : findings_of_program()) out.push_back({each.id, {each}});
  return out;
}

std::string text_of_file(std::string const& name) {
  char const* const tests = std::getenv("PLAIT_TESTS");
  if (tests == nullptr) throw std::runtime_error("PLAIT_TESTS must name the folder of tests");
  std::ifstream file(std::string(tests) + "/../" + name);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.empty()) throw std::runtime_error(name + " cannot be read");
  return text;
}

std::string page() { return text_of_file("docs/doctor.md"); }

/// A section of the page about a finding, and the block of code after its heading.
struct section {
  std::string id{}, block{}, text{};
};

std::vector<section> sections() {
  std::vector<section> out;
  std::istringstream lines(page());
  bool is_inside = false, is_block = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) is_block = !is_block;
    bool const is_heading = line.starts_with("#") && !is_block;
    if (is_heading) is_inside = line.starts_with("### ");
    if (is_heading && is_inside) {
      auto id = line.substr(4);
      std::erase(id, '`');
      out.push_back({.id = id});
    } else if (is_inside && is_block && !line.starts_with("```") && out.back().text.empty()) {
      out.back().block += line + "\n";
    } else if (is_inside && !line.starts_with("```")) {
      out.back().text += line;
    }
  }
  return out;
}

TEST(DoctorPage, HasAnExampleOfEachFinding) {
  auto const all = examples();
  if (std::getenv("PLAIT_PRINT_DOCTOR_PAGE") != nullptr) {
    for (auto const& each : all) {
      std::printf("### `%s`\n\n```text\n", each.id.c_str());
      for (auto const& found : each.found) std::printf("%s\n", found.text().c_str());
      std::printf("```\n\n");
    }
    std::printf("Report:\n\n```text\n%s```\n", example_of_report().c_str());
  }
  auto const of_page = sections();
  for (auto const& each : all) {
    SCOPED_TRACE(each.id);
    ASSERT_EQ(each.found.size(), 1u);
    EXPECT_EQ(each.found[0].id, each.id);
    EXPECT_TRUE(!each.found[0].what_to_do.empty() || each.id == "not-measured");
    auto const same = std::find_if(of_page.begin(), of_page.end(),
                                   [&](section const& of) { return of.id == each.id; });
    ASSERT_NE(same, of_page.end()) << "the page has no section about it";
    EXPECT_EQ(same->block, each.found[0].text() + "\n");
    EXPECT_GT(same->text.size(), 100u) << "the section explains too little";
  }
}

TEST(DoctorPage, HasNoExampleOfAHealthyMachine) {
  auto const all = healthy_settings();
  for (auto const& each : plait::ext::check_settings(all)) ADD_FAILURE() << each.text();
  for (auto const& each : findings_of(healthy_job())) ADD_FAILURE() << each.text();
}

TEST(DoctorPage, HasEachFindingOnce) {
  std::vector<std::string> ids;
  for (auto const& each : sections()) ids.push_back(each.id);
  std::vector<std::string> expected;
  for (auto const& each : examples()) expected.push_back(each.id);
  auto const sorted = [](std::vector<std::string> of) {
    std::sort(of.begin(), of.end());
    return of;
  };
  EXPECT_EQ(sorted(ids), sorted(expected));
  // The contents have the sections in the same order.
  auto const text = page();
  std::string_view contents(text);
  contents = contents.substr(0, contents.find("\n### "));
  contents.remove_prefix(std::min(contents.size(), contents.find("\n## Findings\n")));
  std::vector<std::string> listed;
  for (auto at = contents.find("](#"); at != contents.npos; at = contents.find("](#", at + 1)) {
    auto const begin = contents.rfind('[', at);
    std::string name(contents.substr(begin + 1, at - begin - 1));
    if (!name.starts_with('`')) continue;
    std::erase(name, '`');
    listed.push_back(name);
    EXPECT_EQ(contents.substr(at + 3, name.size() + 1), name + ")");
  }
  EXPECT_EQ(listed, ids);
}

TEST(DoctorPage, HasAllRules) {
  std::set<std::string> ids;
  for (auto const& each : sections()) ids.insert(each.id);
  // The rules that check_settings applies.
  std::set<std::string> applied, with_example;
  auto const source = text_of_file("include/plait/doctor/setting_rules.ipp");
  for (auto at = source.find("rules::"); at != source.npos; at = source.find("rules::", at + 1)) {
    auto const begin = at + 7;
    auto id = source.substr(begin, source.find_first_of(",}; ", begin) - begin);
    std::replace(id.begin(), id.end(), '_', '-');
    applied.insert(id);
  }
  for (auto const& each : faults) with_example.insert(each.id);
  EXPECT_EQ(applied, with_example);
  // The table of the design page.
  auto const design = text_of_file("docs/design/doctor.md");
  std::size_t rows = 0;
  for (auto at = design.find("\n| `"); at != design.npos; at = design.find("\n| `", at + 1)) {
    std::istringstream cell(design.substr(at + 3, design.find('|', at + 3) - at - 3));
    for (std::string id; cell >> id; ++rows) {
      std::erase_if(id, [](char letter) { return letter == '`' || letter == ','; });
      EXPECT_TRUE(ids.contains(id)) << id;
    }
  }
  EXPECT_GE(rows, 32u);
}

TEST(DoctorPage, HasAReport) {
  auto const report = example_of_report();
  EXPECT_NE(page().find("```text\n" + report + "```\n"), std::string::npos) << report;
}

TEST(DoctorPage, HasTheOptions) {
  auto const text = page();
  auto const help = std::string(plait::ext::doctor_help());
  EXPECT_NE(text.find("```text\n" + help + "```\n"), text.npos) << help;
}

}  // namespace
