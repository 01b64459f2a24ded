// SPDX-License-Identifier: Apache-2.0
// test: libs=doctor alone
#include "plait/doctor/gpu_settings.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "doctor/planted_tree.hpp"
#include "doctor/pretended_nvml.hpp"
#include "plait/doctor/gpu_rules.hpp"

namespace {

namespace causes = plait::ext::gpu_clock_causes;
namespace rules = plait::ext::setting_rules;
using plait::ext::finding;
using plait::ext::finding_severity;
using plait::ext::host_settings;
using plait::ext::read_gpu;

using ranks = std::vector<int>;

std::string path_of(char const* library) {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / library).native();
}

std::string const nvml_path = path_of("libpretended_nvml.so");

/// Loads the pretended library, and gives it two devices without a fault.
class GpuSettings : public testing::Test {
 protected:
  GpuSettings() {
    library_ = ::dlopen(nvml_path.c_str(), RTLD_NOW);
    if (library_ == nullptr) return;
    auto* const state =
        reinterpret_cast<pretended_nvml::state* (*)()>(::dlsym(library_, "pretended_nvml_state"));
    nvml_ = state();
    *nvml_ = {};
    for (auto const* const each : {"0", "1"}) {
      pretended_nvml::device of;
      of.uuid = std::string("GPU-") + each;
      of.bus = std::string("0000:0") + each + ":00.0";
      nvml_->devices.push_back(std::move(of));
    }
  }
  ~GpuSettings() override {
    if (library_ != nullptr) ::dlclose(library_);
  }
  void SetUp() override { ASSERT_NE(nvml_, nullptr) << "cannot load " << nvml_path; }

  [[nodiscard]] pretended_nvml::device& device(std::size_t number) const {
    return nvml_->devices[number];
  }
  // Two ranks of host a, with one device each.
  [[nodiscard]] std::vector<host_settings> two_ranks(std::string const& path = nvml_path) const {
    static planted::tree const healthy;
    std::vector<host_settings> out;
    for (int i = 0; i < 2; ++i) {
      out.push_back(planted::read(healthy, i, "a"));
      out.back().uses_gpu = true;
      out.back().gpu = read_gpu(device(static_cast<std::size_t>(i)).bus, path);
    }
    return out;
  }

  pretended_nvml::state* nvml_ = nullptr;

 private:
  void* library_ = nullptr;
};

TEST_F(GpuSettings, AreReadFromNvml) {
  device(1).processes = {{17, 1000}, {18, ~0ull}};
  device(1).clock_causes = causes::idle;
  device(1).write_status = {4};
  auto const found = read_gpu("0000:01:00.0", nvml_path);
  ASSERT_TRUE(found.is_known()) << found.problem();
  auto const& of = found.value();
  EXPECT_EQ(of.uuid, "GPU-1");
  EXPECT_EQ(of.bus, "0000:01:00.0");
  EXPECT_EQ(of.name.value(), "Pretended GPU");
  EXPECT_EQ(of.driver.value(), "550.54.14");
  EXPECT_EQ(of.lanes.value(), 16u);
  EXPECT_EQ(of.most_generation.value(), 5u);
  EXPECT_EQ(of.clock_causes.value(), causes::idle);
  EXPECT_EQ(of.is_persistent.value(), 1u);
  EXPECT_EQ(of.processes.value(), (std::vector<plait::ext::gpu_process>{{17, 1000}, {18, 0}}));
  ASSERT_EQ(of.peers.value().size(), 1u);
  EXPECT_EQ(of.peers.value()[0].uuid, "GPU-0");
  EXPECT_EQ(of.peers.value()[0].status.value(), 4u);
  EXPECT_EQ(nvml_->starts, 1);
  EXPECT_EQ(nvml_->stops, 1);
}

TEST_F(GpuSettings, AreUnknownWithoutTheLibrary) {
  EXPECT_EQ(read_gpu("0", "/no/libnvidia-ml.so.1").problem(),
            "NVML cannot be loaded: /no/libnvidia-ml.so.1: cannot open shared object file: No such "
            "file or directory");
  EXPECT_EQ(read_gpu("0", "libm.so.6").problem(), "'libm.so.6' lacks functions of NVML");
  planted::tree const tree({{"/garbage.so", "no library"}});
  EXPECT_TRUE(read_gpu("0", tree.place("/garbage.so").native())
                  .problem()
                  .starts_with("NVML cannot be loaded: "));
  EXPECT_EQ(read_gpu("9", nvml_path).problem(), "there is no GPU at '9': NVML: Not Found (6)");
  nvml_->error_of_start = 9;
  EXPECT_EQ(read_gpu("0000:01:00.0", nvml_path).problem(),
            "NVML cannot start: NVML: Other Error (9)");
  EXPECT_EQ(nvml_->stops, 1);  // the library that did not start is not stopped
}

TEST_F(GpuSettings, OfAnOldLibraryAreUnknownOneByOne) {
  auto const path = path_of("libpretended_nvml_old.so");
  void* const library = ::dlopen(path.c_str(), RTLD_NOW);
  ASSERT_NE(library, nullptr) << path;
  auto* const state =
      reinterpret_cast<pretended_nvml::state* (*)()>(::dlsym(library, "pretended_nvml_state"))();
  state->devices = nvml_->devices;
  auto const all = two_ranks(path);
  ASSERT_TRUE(all[0].gpu.is_known()) << all[0].gpu.problem();
  auto const& of = all[0].gpu.value();
  EXPECT_EQ(of.uuid, "GPU-0");
  constexpr char const* why = "NVML lacks the function";
  EXPECT_EQ(of.name.problem(), why);
  EXPECT_EQ(of.lanes.problem(), why);
  EXPECT_EQ(of.is_cut.problem(), why);
  EXPECT_EQ(of.processes.problem(), why);
  EXPECT_EQ(of.peers.problem(), why);
  EXPECT_EQ(read_gpu("9", path).problem(), "there is no GPU at '9': NVML: error (6)");
  using rule_function = std::vector<finding> (*)(std::vector<host_settings> const&);
  std::vector<std::pair<rule_function, std::string>> const all_rules{
      {rules::gpu_peers, "gpu-peers"},           {rules::gpu_lanes, "gpu-lanes"},
      {rules::gpu_generation, "gpu-generation"}, {rules::gpu_clock, "gpu-clock"},
      {rules::gpu_errors, "gpu-errors"},         {rules::gpu_instances, "gpu-instances"},
      {rules::gpu_memory, "gpu-memory"},         {rules::gpu_persistence, "gpu-persistence"}};
  for (auto const& [rule, id] : all_rules) {
    auto const found = rule(all);
    ASSERT_EQ(found.size(), 1u) << id;
    EXPECT_EQ(found[0].id, id);
    EXPECT_EQ(found[0].severity, finding_severity::note);
    EXPECT_EQ(found[0].ranks, (ranks{0, 1}));
    EXPECT_NE(found[0].measured.find("not checked (NVML lacks the function)"), std::string::npos)
        << found[0].measured;
  }
  EXPECT_TRUE(rules::gpu_shared(all).empty());
  ::dlclose(library);
}

TEST_F(GpuSettings, HaveErrorsOneByOne) {
  nvml_->error_of_mig = 3;  // a device without MIG is not partitioned
  EXPECT_EQ(read_gpu("0000:01:00.0", nvml_path).value().is_cut.value(), 0u);
  nvml_->error_of_mig = 999;
  EXPECT_EQ(read_gpu("0000:01:00.0", nvml_path).value().is_cut.problem(),
            "NVML: Other Error (999)");
  nvml_->is_growing = true;
  EXPECT_EQ(read_gpu("0000:01:00.0", nvml_path).value().processes.problem(),
            "NVML: Other Error (7)");
  nvml_->is_growing = false;
  device(1).processes.assign(1000, {4, 1});
  EXPECT_EQ(read_gpu("0000:01:00.0", nvml_path).value().processes.value().size(), 1000u);
  device(1).uuid = std::string(500, 'x');
  EXPECT_FALSE(read_gpu("0000:01:00.0", nvml_path).is_known());
}

TEST_F(GpuSettings, WithoutAFaultGiveNoFinding) {
  auto const all = two_ranks();
  for (auto* const rule : {rules::gpu_peers, rules::gpu_lanes, rules::gpu_generation,
                           rules::gpu_clock, rules::gpu_errors, rules::gpu_instances,
                           rules::gpu_memory, rules::gpu_shared, rules::gpu_persistence}) {
    for (auto const& each : rule(all)) ADD_FAILURE() << each.text();
    EXPECT_TRUE(rule({}).empty());
  }
}

TEST_F(GpuSettings, WithoutNvmlAreNotLookedAt) {
  auto const all = two_ranks("/no/nvml");
  for (auto* const rule : {rules::gpu_peers, rules::gpu_lanes, rules::gpu_generation,
                           rules::gpu_clock, rules::gpu_errors, rules::gpu_instances,
                           rules::gpu_memory, rules::gpu_shared, rules::gpu_persistence}) {
    auto const found = rule(all);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].severity, finding_severity::note);
    EXPECT_NE(found[0].measured.find("not checked (NVML cannot be loaded: "), std::string::npos);
    // A rank that uses no GPU needs no NVML.
    auto none = all;
    for (auto& each : none) each.uses_gpu = false;
    EXPECT_TRUE(rule(none).empty());
  }
}

TEST_F(GpuSettings, FindFaults) {
  struct fault {
    std::vector<finding> (*rule)(std::vector<host_settings> const&);
    pretended_nvml::device device;
    finding expected;
  };
  std::string const gpu = "the GPU at 0000:01:00.0";
  pretended_nvml::device const healthy = device(1);
  auto const with = [&](auto change) {
    auto out = healthy;
    change(out);
    return out;
  };
  std::vector<fault> const faults{
      {rules::gpu_lanes,
       with([](auto& of) { of.lanes = 8; }),
       {.id = "gpu-lanes",
        .severity = finding_severity::slow,
        .measured = "the PCI Express link of " + gpu + " has 8 lanes",
        .expected = "16"}},
      {rules::gpu_generation,
       with([](auto& of) { of.generation = 3; }),
       {.id = "gpu-generation",
        .severity = finding_severity::slow,
        .measured = "the PCI Express link of " + gpu + " is of generation 3",
        .expected = "generation 5"}},
      {rules::gpu_generation,
       with([](auto& of) { of.generation = 1, of.clock_causes = 1; }),
       {.id = "gpu-generation",
        .severity = finding_severity::note,
        .measured =
            "the PCI Express link of " + gpu + " is of generation 1, and the device may be idle",
        .expected = "generation 5"}},
      {rules::gpu_clock,
       with([](auto& of) { of.clock_causes = causes::thermal_by_hardware; }),
       {.id = "gpu-clock",
        .severity = finding_severity::slow,
        .measured = "the clock of " + gpu + " is lowered: it is too hot (hardware)",
        .expected = "the full clock"}},
      {rules::gpu_clock,
       with([](auto& of) {
         of.clock_causes = causes::power_brake | causes::power_cap | causes::idle;
       }),
       {.id = "gpu-clock",
        .severity = finding_severity::slow,
        .measured = "the clock of " + gpu +
                    " is lowered: the power supply demands it; it is at its power limit",
        .expected = "the full clock"}},
      {rules::gpu_clock,
       with([](auto& of) { of.clock_causes = causes::applications_clocks; }),
       {.id = "gpu-clock",
        .severity = finding_severity::note,
        .measured = "the clock of " + gpu + " is lowered: a user has set its clock",
        .expected = "the full clock"}},
      {rules::gpu_errors,
       with([](auto& of) { of.corrected_errors = 5, of.uncorrected_errors = 1; }),
       {.id = "gpu-errors",
        .severity = finding_severity::fails,
        .measured = gpu + " had 1 uncorrected memory error since its driver was loaded",
        .expected = "0"}},
      {rules::gpu_errors,
       with([](auto& of) { of.corrected_errors = 5; }),
       {.id = "gpu-errors",
        .severity = finding_severity::note,
        .measured = gpu + " had 5 corrected memory errors since its driver was loaded",
        .expected = "0"}},
      {rules::gpu_instances,
       with([](auto& of) { of.is_cut = 1; }),
       {.id = "gpu-instances",
        .severity = finding_severity::slow,
        .measured = gpu + " is partitioned into instances (MIG)",
        .expected = "a whole GPU"}},
      {rules::gpu_memory,
       with([](auto& of) { of.processes = {{1001, 5}, {7, 3ull << 30}, {8, 1ull << 30}}; }),
       {.id = "gpu-memory",
        .severity = finding_severity::slow,
        .measured = "other processes (7, 8) use 4 GiB of " + gpu,
        .expected = "no other process"}},
      {rules::gpu_persistence,
       with([](auto& of) { of.is_persistent = 0; }),
       {.id = "gpu-persistence",
        .severity = finding_severity::note,
        .measured = "the persistence mode of " + gpu + " is off",
        .expected = "on"}}};
  for (auto const& each : faults) {
    device(1) = each.device;
    auto const found = each.rule(two_ranks());
    ASSERT_EQ(found.size(), 1u) << each.expected.measured;
    auto expected = each.expected;
    expected.ranks = {1};
    expected.host = "a";
    expected.what_to_do = found[0].what_to_do;
    EXPECT_EQ(found[0], expected) << found[0].json() << "\n" << expected.json();
    EXPECT_FALSE(found[0].what_to_do.empty());
    device(1) = healthy;
    EXPECT_TRUE(each.rule(two_ranks()).empty());
  }
}

TEST_F(GpuSettings, FindMissingAccess) {
  device(0).read_status = {0, 3};
  auto found = rules::gpu_peers(two_ranks());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].text(),
            "ranks 0 and 1 (host a): the GPU at 0000:00:00.0 cannot access the memory of the GPU "
            "at 0000:01:00.0: the GPUs are on different I/O hubs; expected: access to each other's "
            "memory; place the ranks on GPUs with access (`nvidia-smi topo -p2p r`), or turn off "
            "ACS in the BIOS");
  device(0).read_status = {};
  device(0).write_status = {0, 77};
  found = rules::gpu_peers(two_ranks());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].measured.find("NVML's status 77"), std::string::npos);
  // The rule does not compare devices of different hosts.
  auto all = two_ranks();
  all[1].host = "b";
  EXPECT_TRUE(rules::gpu_peers(all).empty());
  all = two_ranks();
  all[0].gpu.value().peers.value()[0].uuid = "GPU-7";
  EXPECT_EQ(rules::gpu_peers(all)[0].measured,
            "access to the memory of other GPUs: not checked (NVML does not list GPU-1)");
}

// In a container, NVML may number the job's own processes as the host does.
TEST_F(GpuSettings, AreNotComparedWithTheNumbersOfAContainer) {
  device(1).processes = {{70'001, 1ull << 30}, {1001, 1ull << 30}};
  auto all = two_ranks();
  EXPECT_EQ(rules::gpu_memory(all)[0].severity, finding_severity::slow);
  all[1].pid_namespace = std::uint64_t{4026532000};
  auto found = rules::gpu_memory(all);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].text(),
            "rank 1 (host a): processes (70001, 1001) use 2 GiB of the GPU at 0000:01:00.0, and "
            "may be the job's own (the rank runs in a container that has its own numbers of "
            "processes); expected: no other process; look for other programs outside of the "
            "container (`nvidia-smi`)");
  EXPECT_EQ(found[0].severity, finding_severity::note);
  all[1].pid_namespace = plait::ext::reading<std::uint64_t>::unknown("/proc/self/ns/pid: missing");
  found = rules::gpu_memory(all);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].measured.find("own (/proc/self/ns/pid: missing)"), std::string::npos);
  EXPECT_EQ(found[0].severity, finding_severity::note);
  // Without any process there is nothing to know.
  device(1).processes.clear();
  all = two_ranks();
  all[1].pid_namespace = std::uint64_t{4026532000};
  EXPECT_TRUE(rules::gpu_memory(all).empty());
}

TEST_F(GpuSettings, FindTwoRanksOnOneDevice) {
  auto all = two_ranks();
  all[1].gpu = all[0].gpu;
  auto const found = rules::gpu_shared(all);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].id, "gpu-shared");
  EXPECT_EQ(found[0].severity, finding_severity::fails);
  EXPECT_EQ(found[0].ranks, (ranks{0, 1}));
  EXPECT_EQ(found[0].measured, "2 ranks use the GPU at 0000:00:00.0");
}

}  // namespace
